#include "cogwheel/distributed/state_chain.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::distributed {
namespace {

using ops::variable_list;

const std::string states_text = "states at the ends of stretches";

// One of the tensors that a call is given: what it is, and its dimensions.
struct Given {
  enum Kind { query, key, value, parameter, state } kind;
  std::string name;  // of a parameter
  std::string axes;
};

// Some heads of some batch entries.
struct Part {
  std::int64_t batch, batches, head, heads;
};

// What has been computed of a part in a stretch, for backward.
struct Item {
  variable_list leaves, results;  // the output and the state's parts
};

class StateChain {
 public:
  StateChain(const CutRanks& ranks, const RecurrentLaw& law, std::vector<Given> given, variable_list inputs,
             const ops::RecurrentOptions& options, bool recorded)
      : ranks_(ranks), law_(law), given_(std::move(given)), options_(options), recorded_(recorded) {
    options_.parameters.clear(), options_.initial_state.clear();
    at::Tensor value;
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i].kind == Given::value) value = inputs[i];
    choose_parts(value.size(0), value.size(1));
    for (const std::int64_t number : ranks.cut.stretches_of(ranks.group.rank())) numbers_.push_back(number);
    stretches_ = ranks.cut.places(ranks.group.rank(), value.size(2));
    find_sizes_of_state(inputs);
  }

  // The output and the state after the last token.
  variable_list forward(const variable_list& inputs) {
    at::Tensor output;
    variable_list last = empty_states();
    std::map<std::pair<std::int64_t, std::int64_t>, variable_list> incoming;  // by stretch and part
    for (std::int64_t turn = 0; turn < turns(); ++turn) {
      Mail mail(ranks_, *this);
      for (std::size_t own = 0; own < numbers_.size(); ++own) {
        const std::int64_t stretch = numbers_[own], part = turn - stretch;
        if (!has(part)) continue;
        const variable_list results = run(inputs, own, part, incoming[{stretch, part}]);
        incoming.erase({stretch, part});
        if (!output.defined()) output = empty_output(inputs, results[0]);
        const Part& of = parts_[static_cast<std::size_t>(part)];
        narrowed(output, "BHND", of, &stretches_[own]).copy_(results[0]);
        const variable_list state(results.begin() + 1, results.end());
        if (stretch + 1 < ranks_.cut.stretches())
          mail.send(ranks_.cut.owner(stretch + 1), state);
        else
          for (std::size_t i = 0; i < state.size(); ++i) narrowed(last[i], "BH", of, nullptr).copy_(state[i]);
      }
      if (turn + 1 == turns()) break;
      for (const std::int64_t stretch : numbers_)
        if (stretch > 0 && has(turn - (stretch - 1))) mail.expect(ranks_.cut.owner(stretch - 1), stretch);
      for (auto& [stretch, state] : mail.delivered()) incoming[{stretch, turn - (stretch - 1)}] = std::move(state);
    }
    for (at::Tensor& part : last) {
      const at::Tensor of_ranks = ranks_.group.gather(part, states_text).result(states_text);
      part = of_ranks[ranks_.cut.owner(ranks_.cut.stretches() - 1)].clone();
    }
    last.insert(last.begin(), output);
    return last;
  }

  // Of the inputs, by the gradients of the output and of the state, undefined where there are none.
  variable_list backward(const variable_list& inputs, const variable_list& gradients) {
    variable_list found;
    for (const at::Tensor& input : inputs) found.push_back(at::zeros_like(input));
    variable_list of_last = empty_states();
    for (std::size_t i = 0; i < of_last.size(); ++i) {
      const at::Tensor own = gradients[i + 1].defined() ? gradients[i + 1].to(of_last[i].scalar_type()) : of_last[i];
      of_last[i] = sum_of_ranks(ranks_.group.gather(own, states_text).result(states_text));
    }
    std::map<std::pair<std::int64_t, std::int64_t>, variable_list> incoming;
    for (std::int64_t turn = turns() - 1; turn >= 0; --turn) {
      Mail mail(ranks_, *this);
      for (std::size_t own = numbers_.size(); own-- > 0;) {
        const std::int64_t stretch = numbers_[own], part = turn - stretch;
        if (!has(part)) continue;
        const Part& of = parts_[static_cast<std::size_t>(part)];
        variable_list upstream{gradients[0].defined() ? narrowed(gradients[0], "BHND", of, &stretches_[own])
                                                      : at::Tensor()};
        const auto after = incoming.find({stretch, part});
        for (std::size_t i = 0; i < of_last.size(); ++i)
          upstream.push_back(after == incoming.end() ? narrowed(of_last[i], "BH", of, nullptr) : after->second[i]);
        variable_list to_state = go_back(own, part, upstream, found);
        if (stretch > 0) mail.send(ranks_.cut.owner(stretch - 1), to_state);
      }
      if (turn == 0) break;
      for (const std::int64_t stretch : numbers_)
        if (stretch + 1 < ranks_.cut.stretches() && has(turn - (stretch + 1)))
          mail.expect(ranks_.cut.owner(stretch + 1), stretch);
      for (auto& [stretch, state] : mail.delivered()) incoming[{stretch, turn - (stretch + 1)}] = std::move(state);
    }
    return found;
  }

 private:
  // States that go to other ranks, and come from them, after a turn.
  class Mail {
   public:
    Mail(const CutRanks& ranks, const StateChain& chain)
        : ranks_(ranks), chain_(chain), sent_(static_cast<std::size_t>(ranks.group.count())) {}

    void send(std::int64_t rank, const variable_list& state) {
      for (const at::Tensor& part : state) sent_[static_cast<std::size_t>(rank)].push_back(part.reshape(-1));
    }
    void expect(std::int64_t rank, std::int64_t stretch) { expected_.emplace_back(rank, stretch); }

    std::vector<std::pair<std::int64_t, variable_list>> delivered() {
      std::vector<std::int64_t> to(sent_.size()), from(sent_.size());
      variable_list flat{at::empty({0}, chain_.of_state_)};
      for (std::size_t rank = 0; rank < sent_.size(); ++rank)
        for (const at::Tensor& part : sent_[rank]) {
          to[rank] += part.numel();
          flat.push_back(part);
        }
      for (const auto& [rank, stretch] : expected_) from[static_cast<std::size_t>(rank)] += chain_.numbers_of_state();
      const at::Tensor received = ranks_.group.exchange(at::cat(flat), to, from, states_text).result(states_text);
      // From the first rank to the last, as they came; of one rank, by rising stretch.
      std::stable_sort(expected_.begin(), expected_.end());
      std::vector<std::pair<std::int64_t, variable_list>> states;
      std::int64_t place = 0;
      for (const auto& [rank, stretch] : expected_) {
        variable_list state;
        for (const std::vector<std::int64_t>& sizes : chain_.sizes_) {
          const std::int64_t numbers = c10::multiply_integers(sizes);
          state.push_back(received.narrow(0, place, numbers).view(sizes));
          place += numbers;
        }
        states.emplace_back(stretch, std::move(state));
      }
      return states;
    }

   private:
    const CutRanks& ranks_;
    const StateChain& chain_;
    std::vector<variable_list> sent_;
    std::vector<std::pair<std::int64_t, std::int64_t>> expected_;  // rank, stretch
  };

  bool has(std::int64_t part) const { return part >= 0 && part < static_cast<std::int64_t>(parts_.size()); }
  std::int64_t turns() const { return static_cast<std::int64_t>(parts_.size()) + ranks_.cut.stretches() - 1; }

  // Enough parts, of one size, for all stretches to have work; entries of the batch apart only where heads are few.
  void choose_parts(std::int64_t batch, std::int64_t heads) {
    const std::int64_t stretches = ranks_.cut.stretches();
    const std::int64_t batches = heads >= stretches ? batch : 1;
    std::int64_t groups = 1;
    for (std::int64_t divisor = 1; divisor <= std::min(heads, 2 * stretches); ++divisor)
      if (heads % divisor == 0) groups = divisor;
    for (std::int64_t first = 0; first < batch; first += batches)
      for (std::int64_t group = 0; group < groups; ++group)
        parts_.push_back({first, batches, group * (heads / groups), heads / groups});
  }

  static at::Tensor narrowed(const at::Tensor& tensor, std::string_view axes, const Part& part,
                             const Stretch* stretch) {
    at::Tensor result = tensor;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const auto dim = static_cast<std::int64_t>(axis);
      if (axes[axis] == 'B') result = result.narrow(dim, part.batch, part.batches);
      if (axes[axis] == 'H') result = result.narrow(dim, part.head, part.heads);
      if (axes[axis] == 'N' && stretch != nullptr) result = result.narrow(dim, stretch->place, stretch->size());
    }
    return result;
  }

  variable_list empty_states() const {
    variable_list states;
    for (const std::vector<std::int64_t>& sizes : sizes_) {
      std::vector<std::int64_t> whole = sizes;
      whole[0] = batch_, whole[1] = heads_;
      states.push_back(at::zeros(whole, of_state_));
    }
    return states;
  }

  at::Tensor empty_output(const variable_list& inputs, const at::Tensor& like) const {
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i].kind == Given::value)
        return at::empty({batch_, heads_, inputs[i].size(2), like.size(3)}, like.options());
    return {};
  }

  std::int64_t numbers_of_state() const {
    std::int64_t numbers = 0;
    for (const std::vector<std::int64_t>& sizes : sizes_) numbers += c10::multiply_integers(sizes);
    return numbers;
  }

  // As one token leaves it.
  void find_sizes_of_state(const variable_list& inputs) {
    const at::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i].kind == Given::value) batch_ = inputs[i].size(0), heads_ = inputs[i].size(1);
    const Stretch token{0, 1, 0};
    const variable_list results = call(leaves_of(inputs, parts_[0], token, {}, false));
    for (std::size_t i = 1; i < results.size(); ++i) {
      sizes_.push_back(results[i].sizes().vec());
      of_state_ = results[i].options();
    }
  }

  // The inputs of a part; the parts of a state at the end.
  variable_list leaves_of(const variable_list& inputs, const Part& part, const Stretch& stretch,
                          const variable_list& state, bool is_first) const {
    variable_list leaves;
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i].kind != Given::state)
        leaves.push_back(narrowed(inputs[i], given_[i].axes, part, &stretch).detach());
    if (is_first) {
      for (std::size_t i = 0; i < given_.size(); ++i)
        if (given_[i].kind == Given::state) leaves.push_back(narrowed(inputs[i], "BH", part, nullptr).detach());
    } else {
      for (const at::Tensor& each : state) leaves.push_back(each.detach());
    }
    return leaves;
  }

  variable_list call(const variable_list& leaves) const {
    ops::RecurrentOptions options = options_;
    std::optional<at::Tensor> query, key;
    at::Tensor value;
    std::size_t place = 0;
    for (const Given& each : given_) {
      if (each.kind == Given::state) continue;
      const at::Tensor& leaf = leaves[place++];
      if (each.kind == Given::query) query = leaf;
      if (each.kind == Given::key) key = leaf;
      if (each.kind == Given::value) value = leaf;
      if (each.kind == Given::parameter) options.parameters.emplace_back(each.name, leaf);
    }
    options.initial_state.assign(leaves.begin() + static_cast<std::ptrdiff_t>(place), leaves.end());
    auto [output, state] = ops::recurrent(query, key, value, law_.name, options);
    variable_list results{output};
    results.insert(results.end(), state.begin(), state.end());
    return results;
  }

  variable_list run(const variable_list& inputs, std::size_t own, std::int64_t part, const variable_list& state) {
    Item item;
    item.leaves = leaves_of(inputs, parts_[static_cast<std::size_t>(part)], stretches_[own], state, numbers_[own] == 0);
    if (recorded_)
      for (at::Tensor& leaf : item.leaves)
        if (at::isFloatingType(leaf.scalar_type())) leaf.set_requires_grad(true);
    {
      const at::AutoGradMode recording(recorded_);
      item.results = call(item.leaves);
    }
    variable_list results;
    for (const at::Tensor& each : item.results) results.push_back(each.detach());
    if (recorded_) items_[{static_cast<std::int64_t>(own), part}] = std::move(item);
    return results;
  }

  // Adds the gradients of a part's inputs, and returns those of the state that it began with, none of the first
  // stretch.
  variable_list go_back(std::size_t own, std::int64_t part, const variable_list& upstream, variable_list& found) {
    const Item& item = items_.at({static_cast<std::int64_t>(own), part});
    variable_list roots, gradients, leaves;
    for (std::size_t i = 0; i < upstream.size(); ++i)
      if (upstream[i].defined() && item.results[i].requires_grad()) {
        roots.push_back(item.results[i]);
        gradients.push_back(upstream[i].to(item.results[i].scalar_type()));
      }
    for (const at::Tensor& leaf : item.leaves)
      if (leaf.requires_grad()) leaves.push_back(leaf);
    variable_list made(leaves.size());
    if (!roots.empty()) made = torch::autograd::grad(roots, leaves, gradients, true, false, true);
    const Part& of = parts_[static_cast<std::size_t>(part)];
    std::size_t leaf = 0, next = 0;
    const auto gradient_of = [&](const at::Tensor& each) {
      if (!each.requires_grad()) return at::Tensor();
      return made[next++];
    };
    const auto add = [&](std::size_t input, std::string_view axes, const Stretch* stretch) {
      const at::Tensor gradient = gradient_of(item.leaves[leaf++]);
      if (gradient.defined()) narrowed(found[input], axes, of, stretch).add_(gradient);
    };
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (given_[i].kind != Given::state) add(i, given_[i].axes, &stretches_[own]);
    variable_list to_state;
    if (numbers_[own] == 0) {
      for (std::size_t i = 0; i < given_.size(); ++i)
        if (given_[i].kind == Given::state) add(i, "BH", nullptr);
      return to_state;
    }
    for (; leaf < item.leaves.size(); ++leaf) {
      const at::Tensor gradient = gradient_of(item.leaves[leaf]);
      to_state.push_back(gradient.defined() ? gradient : at::zeros_like(item.leaves[leaf]));
    }
    return to_state;
  }

  CutRanks ranks_;
  const RecurrentLaw& law_;
  std::vector<Given> given_;
  ops::RecurrentOptions options_;  // without tensors
  bool recorded_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> numbers_;  // of this rank's stretches
  std::vector<Stretch> stretches_;
  std::int64_t batch_ = 0, heads_ = 0;
  std::vector<std::vector<std::int64_t>> sizes_;  // of a part's state
  at::TensorOptions of_state_;
  std::map<std::pair<std::int64_t, std::int64_t>, Item> items_;  // by own stretch and part
};

}  // namespace

std::string_view axes_of(const RecurrentLaw& law, std::string_view parameter, const at::Tensor& tensor) {
  for (const RecurrentParameter& listed : law.parameters)
    if (listed.name == parameter) return ops::chosen_axes(listed.axes, tensor.dim());
  return "";
}

std::tuple<at::Tensor, std::vector<at::Tensor>> by_state_chain(const CutRanks& ranks, const RecurrentLaw& law,
                                                               const std::optional<at::Tensor>& query,
                                                               const std::optional<at::Tensor>& key,
                                                               const at::Tensor& value,
                                                               const ops::RecurrentOptions& options) {
  std::vector<Given> given;
  variable_list inputs;
  const auto take = [&](Given::Kind kind, std::string name, std::string_view axes, const at::Tensor& tensor) {
    given.push_back({kind, std::move(name), std::string(axes)});
    inputs.push_back(tensor);
  };
  if (query) take(Given::query, "", "BHND", *query);
  if (key) take(Given::key, "", "BHND", *key);
  take(Given::value, "", "BHNV", value);
  for (const auto& [name, tensor] : options.parameters)
    take(Given::parameter, name, axes_of(law, name, tensor), tensor);
  for (const at::Tensor& part : options.initial_state) take(Given::state, "", "BH", part);

  const bool recorded = ops::needs_record(inputs);
  const auto chain = std::make_shared<StateChain>(ranks, law, given, inputs, options, recorded);
  variable_list outputs;
  {
    const at::NoGradGuard no_gradient;
    outputs = chain->forward(inputs);
  }
  if (recorded)
    ops::record_saving("StateChainBackward", inputs, outputs, {inputs, {}, {}},
                       [chain](const variable_list& in, const variable_list&, const variable_list& gradients) {
                         if (at::GradMode::is_enabled()) ops::refuse_recurrent_derivative("second ones");
                         return chain->backward(in, gradients);
                       });
  return {outputs[0], variable_list(outputs.begin() + 1, outputs.end())};
}

}  // namespace cogwheel::distributed
