#include "cogwheel/nn/conversion/weight_conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/token_mixer.h"

namespace cogwheel::nn {
namespace {

const char* role_name(ProjectionRole role) {
  switch (role) {
    case ProjectionRole::query:
      return "queries";
    case ProjectionRole::key:
      return "keys";
    case ProjectionRole::value:
      return "values";
    default:
      return "output";
  }
}

// For each head of `to`, how often its queries read which head of `from`; empty where heads do not correspond.
std::vector<std::map<std::int64_t, std::int64_t>> sources(const Projection& from, const Projection& to) {
  if (from.head_dim != to.head_dim || from.read.size() != to.read.size()) return {};
  std::vector<std::map<std::int64_t, std::int64_t>> counts(static_cast<std::size_t>(to.heads));
  for (std::size_t query = 0; query < to.read.size(); ++query)
    ++counts[static_cast<std::size_t>(to.read[query])][from.read[query]];
  return counts;
}

// Other heads of the same size in all, each read by one query: a head of two becomes a pair, and a pair a head.
bool fit_as_they_lie(const Projection& from, const Projection& to) {
  const auto apart = [](const Projection& each) { return each.heads == std::ssize(each.read); };
  return from.size() == to.size() && apart(from) && apart(to);
}

bool can_take(const Projection& from, const Projection& to) {
  const auto counts = sources(from, to);
  return !counts.empty() ? std::none_of(counts.begin(), counts.end(), [](const auto& each) { return each.empty(); })
                         : fit_as_they_lie(from, to);
}

// Whether every head is one head of the other, in its place.
bool is_copy(const Projection& from, const Projection& to) {
  const auto counts = sources(from, to);
  if (counts.empty()) return true;
  for (std::size_t head = 0; head < counts.size(); ++head)
    if (counts[head].size() != 1 || counts[head].begin()->first != static_cast<std::int64_t>(head)) return false;
  return from.heads == to.heads;
}

// `given` and `made`: the rows of either, along the first dimension.
void take_heads(const Projection& from, const at::Tensor& given, const Projection& to, const at::Tensor& made) {
  const at::Tensor target = made;
  const auto counts = sources(from, to);
  if (counts.empty()) {
    target.copy_(given);
    return;
  }
  const auto head_of = [](const at::Tensor& rows, std::int64_t head, std::int64_t size) {
    return rows.narrow(0, head * size, size);
  };
  for (std::size_t head = 0; head < counts.size(); ++head) {
    at::Tensor place = head_of(target, static_cast<std::int64_t>(head), to.head_dim);
    if (counts[head].size() == 1) {
      place.copy_(head_of(given, counts[head].begin()->first, from.head_dim));
      continue;
    }
    at::Tensor sum;
    std::int64_t readers = 0;
    for (const auto& [source, times] : counts[head]) {
      const at::Tensor part = head_of(given, source, from.head_dim).to(at::kDouble) * static_cast<double>(times);
      sum = sum.defined() ? sum + part : part;
      readers += times;
    }
    place.copy_(sum / static_cast<double>(readers));
  }
}

std::string how_taken(const Projection& from, const Projection& to) {
  const char* const how = from.heads > to.heads   ? "means of the heads that a query reads"
                          : from.heads < to.heads ? "copies for the heads that read one"
                                                  : "means of the heads that pairs of queries read";
  return fmt::format("{} → {} heads, {}", from.heads, to.heads, how);
}

class Conversion {
 public:
  Conversion(const torch::nn::Module& from, torch::nn::Module& to)
      : from_(from), to_(to), given_(from.named_parameters()), made_(to.named_parameters()) {}

  std::vector<ConvertedPart> all() {
    const torch::NoGradGuard no_grad;
    const auto mixers_before = mixers(from_), mixers_now = mixers(to_);
    for (const auto& [name, mixer] : mixers_now)
      if (const auto before = mixers_before.find(name); before != mixers_before.end())
        exchange(name, before->second->projections(), mixer->projections());
    for (const auto& parameter : made_)
      if (!done_.contains(parameter.key())) take(parameter.key(), parameter.value());
    for (const auto& [name, mixer] : mixers_now)
      if (const auto before = mixers_before.find(name); before != mixers_before.end())
        take_layout(name, *before->second, *mixer);
    for (const auto& parameter : given_)
      if (!read_.contains(parameter.key())) add(Fate::lost, parameter.key());
    return std::move(parts_);
  }

 private:
  using Mixers = std::map<std::string, TokenMixer*>;
  static Mixers mixers(const torch::nn::Module& model) {
    Mixers found;
    for (const auto& module : model.named_modules())
      if (auto* const mixer = dynamic_cast<TokenMixer*>(module.value().get())) found[module.key()] = mixer;
    return found;
  }

  // After all has been taken.
  void take_layout(const std::string& name, const TokenMixer& before, TokenMixer& mixer) {
    const auto given = before.rotary_layout(), made = mixer.rotary_layout();
    if (!given || !made || *given == *made) return;
    std::set<std::string> rearranged{name + ": " + role_name(ProjectionRole::query),
                                     name + ": " + role_name(ProjectionRole::key)};
    for (const std::string& parameter : mixer.take_layout(*given)) rearranged.insert(name + "." + parameter);
    for (ConvertedPart& part : parts_) {
      if (!rearranged.contains(part.name) || part.fate == Fate::created || part.fate == Fate::lost) continue;
      part.fate = Fate::changed;
      part.how += std::string(part.how.empty() ? "" : "; ") + "components in the order of the other rotary layout";
    }
  }

  void add(Fate fate, std::string name, std::string how = {}) {
    parts_.push_back({fate, std::move(name), std::move(how)});
  }

  // The rows of a role, of the weight or the bias; undefined where there are none.
  static at::Tensor rows_of(const torch::OrderedDict<std::string, at::Tensor>& parameters, const std::string& name,
                            const Projection& projection) {
    const at::Tensor* const whole = parameters.find(name);
    if (whole == nullptr) return {};
    const bool columns = projection.role == ProjectionRole::output;
    return (columns ? whole->t() : *whole).narrow(0, projection.first, projection.size());
  }

  void exchange(const std::string& mixer, const std::vector<Projection>& before, const std::vector<Projection>& now) {
    const auto of_role = [](const std::vector<Projection>& some, ProjectionRole role) {
      return std::find_if(some.begin(), some.end(), [&](const Projection& each) { return each.role == role; });
    };
    for (const Projection& to : now) {
      const std::string module = mixer + "." + to.module, part = mixer + ": " + role_name(to.role);
      const bool columns = to.role == ProjectionRole::output;
      done_.insert(module + ".weight");
      if (!columns) done_.insert(module + ".bias");
      const auto from = of_role(before, to.role);
      if (from == before.end()) {
        add(Fate::created, part);
        continue;
      }
      const std::string source = mixer + "." + from->module;
      const at::Tensor given = rows_of(given_, source + ".weight", *from),
                       made = rows_of(made_, module + ".weight", to);
      read_.insert(source + ".weight");
      if (!columns) read_.insert(source + ".bias");
      if (!can_take(*from, to) || given.size(1) != made.size(1)) {
        add(Fate::created, part);
        add(Fate::lost, part);
        continue;
      }
      take_heads(*from, given, to, made);
      const bool copy = is_copy(*from, to);
      add(copy ? Fate::copied : Fate::changed, part, copy ? "" : how_taken(*from, to));
      if (columns) continue;
      const at::Tensor bias_given = rows_of(given_, source + ".bias", *from),
                       bias_made = rows_of(made_, module + ".bias", to);
      if (bias_given.defined() && bias_made.defined()) take_heads(*from, bias_given, to, bias_made);
      if (bias_given.defined() != bias_made.defined())
        add(bias_made.defined() ? Fate::created : Fate::lost, part + ", bias");
    }
    for (const Projection& from : before)
      if (of_role(now, from.role) == now.end()) {
        read_.insert(mixer + "." + from.module + ".weight");
        read_.insert(mixer + "." + from.module + ".bias");
        add(Fate::lost, mixer + ": " + role_name(from.role));
      }
  }

  bool in_mixer(const std::string& name) const {
    const Mixers all = mixers(to_);
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return name.starts_with(each.first + "."); });
  }

  void take(const std::string& name, at::Tensor made) {
    const at::Tensor* const given = given_.find(name);
    if (given == nullptr) {
      const at::Tensor* const embedding = given_.find("token_embedding");
      if (name != "head.weight" || embedding == nullptr || embedding->sizes() != made.sizes())
        return add(Fate::created, name);
      made.copy_(*embedding);
      return add(Fate::changed, name, "the token embedding, which was the head");
    }
    read_.insert(name);
    if (given->sizes() == made.sizes()) {
      made.copy_(*given);
      return add(Fate::copied, name);
    }
    if (name == "position_embedding" && given->size(1) == made.size(1)) {
      const std::int64_t kept = std::min(given->size(0), made.size(0));
      made.narrow(0, 0, kept).copy_(given->narrow(0, 0, kept));
      return add(Fate::changed, name,
                 kept < made.size(0) ? fmt::format("the first {} of {} rows, the others are new", kept, made.size(0))
                                     : fmt::format("the first {} of {} rows", kept, given->size(0)));
    }
    if (!in_mixer(name))
      throw UsageError(
          expected_got(name, "the shape that it has, " + shape_text(given->sizes()), shape_text(made.sizes())));
    add(Fate::created, name);
    add(Fate::lost, name);
  }

  const torch::nn::Module& from_;
  torch::nn::Module& to_;
  torch::OrderedDict<std::string, at::Tensor> given_, made_;
  std::set<std::string> read_, done_;
  std::vector<ConvertedPart> parts_;
};

}  // namespace

std::vector<ConvertedPart> convert_weights(const torch::nn::Module& from, torch::nn::Module& to) {
  return Conversion(from, to).all();
}

namespace {

// 0, 1, 2, 5 → "0 to 2, 5".
std::string ranges_of(const std::vector<std::int64_t>& layers) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    ranges.push_back(first == last ? std::to_string(layers[first])
                                   : fmt::format("{} to {}", layers[first], layers[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

}  // namespace

std::vector<std::string> lines_of(const std::vector<ConvertedPart>& parts, Fate fate, std::int64_t layers) {
  const std::string before = "layers.";
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::int64_t>> found;
  for (const ConvertedPart& part : parts) {
    if (part.fate != fate) continue;
    std::string line = part.name + (part.how.empty() ? "" : " (" + part.how + ")");
    std::int64_t layer = -1;
    if (line.starts_with(before)) {
      const std::size_t end = line.find('.', before.size());
      std::from_chars(line.data() + before.size(), line.data() + end, layer);
      line.replace(before.size(), end - before.size(), "*");
    }
    if (!found.contains(line)) order.push_back(line);
    found[line].push_back(layer);
  }
  std::vector<std::string> lines;
  for (const std::string& line : order) {
    const std::vector<std::int64_t>& of = found[line];
    const bool some = of.front() >= 0 && std::ssize(of) < layers;
    lines.push_back(some ? line + fmt::format(", layer{} {}", of.size() == 1 ? "" : "s", ranges_of(of)) : line);
  }
  return lines;
}

}  // namespace cogwheel::nn
