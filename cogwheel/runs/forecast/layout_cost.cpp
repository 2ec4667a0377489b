#include "cogwheel/runs/forecast/layout_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "cogwheel/core/error.h"
#include "cogwheel/distributed/attention.h"
#include "cogwheel/distributed/buckets.h"
#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/distributed/gathered_keys.h"
#include "cogwheel/distributed/joint_exchange.h"
#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::runs {
namespace {

double real(std::int64_t number) { return static_cast<double>(number); }

// Where the ranks of a group are.
struct Spread {
  std::int64_t on_node, groups_of_node;  // of one group, on one node; groups that have ranks there
  bool leaves_node;
};

Spread spread_of(const RankGroup& group, const Network& network) {
  const std::int64_t groups = std::min(group.stride, network.ranks_per_node),
                     on_node = std::clamp<std::int64_t>(network.ranks_per_node / groups, 1, group.ranks);
  return {on_node, groups, on_node < group.ranks};
}

// That messages wait for.
const Link& link_of(const Spread& spread, const Network& network) {
  return spread.leaves_node ? network.between : network.within;
}

// A ring through all nodes crosses from one to the next with one rank of each group.
double seconds_around_ring(double sent, const Spread& spread, const Network& network) {
  const double within = spread.on_node > 1 ? sent / network.within.bandwidth : 0,
               between = spread.leaves_node ? sent * real(spread.groups_of_node) / network.between.bandwidth : 0;
  return std::max(within, between);
}

// What messages wait for comes on top.
double seconds_of_exchange(double sent, const RankGroup& group, const Network& network,
                           double (Link::*waits)(std::int64_t ranks) const) {
  if (group.ranks == 1) return 0;
  const Spread spread = spread_of(group, network);
  return seconds_around_ring(sent, spread, network) + (link_of(spread, network).*waits)(group.ranks);
}

constexpr double bytes_of_number = sizeof(float);  // activations and gradients, whatever training.precision is

// Blocks whose activations are all kept, and those of which only the input is.
struct KeptBlocks {
  double whole, input;
};

KeptBlocks kept_blocks(const TransformerShape& shape) {
  const std::int64_t again = shape.recompute == 0 ? 0 : shape.layers / shape.recompute;
  return {real(shape.layers - again), real(again)};
}

double share_made_again(const TransformerShape& shape) {
  return kept_blocks(shape).input / std::max(1.0, real(shape.layers));
}

std::int64_t part(std::int64_t bytes, std::int64_t ranks) { return (bytes + ranks - 1) / ranks; }

// Of a slice, on one of the ranks that share it: the input of a block and of its norms is whole on each tensor rank,
// the rest is divided.
std::int64_t shared_activations(std::int64_t activations, const Layout& layout, const StepFacts& facts) {
  if (!facts.shape) return activations;
  const KeptBlocks blocks = kept_blocks(*facts.shape);
  constexpr double of_whole_block = 4;  // two inputs, two norms of them
  const double undivided =
      std::min(real(activations), (of_whole_block * blocks.whole + blocks.input) *
                                      real(facts.tokens_of_slice * facts.shape->width) * bytes_of_number);
  return static_cast<std::int64_t>((undivided + (real(activations) - undivided) / real(layout.tensor)) /
                                   real(layout.context));
}

// Of an exchange (distributed/sum_over_ranks.h). Until they are sums, buckets are sent and received, two at a time;
// where all ranks get the sums, those of two come back meanwhile.
std::int64_t exchange_buffers(std::int64_t bytes, std::int64_t ranks, bool stay_with_owners) {
  if (bytes == 0 || ranks == 1) return 0;
  const std::int64_t under_way = stay_with_owners ? 4 : 6;
  return under_way * std::min(bytes, distributed::bytes_of_a_bucket(bytes, ranks));
}

std::int64_t divided_weights(const Layout& layout, const StepFacts& facts) {
  std::int64_t bytes = 0;
  for (const DividedBytes& each : facts.divided)
    if (each.divisor % layout.tensor == 0) bytes += each.bytes;
  return bytes;
}

// What a rank holds of all parameters.
double share_of_weights(const Layout& layout, const StepFacts& facts) {
  if (layout.tensor == 1) return 1;
  return 1 - real(divided_weights(layout, facts)) / real(facts.held.weights) * (1 - 1 / real(layout.tensor));
}

// Bytes of gradients that all ranks add: none where each has all weights.
std::int64_t learned_by_all(const Layout& layout, const StepFacts& facts) {
  if (layout.tensor == 1) return 0;
  const double whole = 1 - real(divided_weights(layout, facts)) / real(facts.held.weights);
  return static_cast<std::int64_t>(std::llround(real(facts.held.learned) * whole));
}

std::vector<MemoryPart> memory_of(const Layout& layout, const StepFacts& facts) {
  const std::int64_t slices = facts.slices / layout.data;
  const auto share = [weights = share_of_weights(layout, facts)](std::int64_t bytes) {
    return static_cast<std::int64_t>(std::llround(real(bytes) * weights));
  };
  StepBytes held{.weights = share(facts.held.weights),
                 .moments = part(share(facts.held.moments), layout.divides_moments ? layout.copies() : 1),
                 .average = share(facts.held.average),
                 .learned = share(facts.held.learned),
                 .largest = share(facts.held.largest)};
  for (const PassMoment& each : facts.held.pass)
    held.pass.push_back({.made = share(each.made),
                         .activations = shared_activations(each.activations, layout, facts),
                         .logits = part(each.logits, layout.tensor * layout.context),
                         .unfinished = share(each.unfinished)});
  const std::int64_t of_all = learned_by_all(layout, facts), of_share = held.learned - of_all;
  const auto exchanged = [&](std::int64_t bytes, std::int64_t ranks) {
    return exchange_buffers(bytes, ranks, layout.divides_moments);
  };
  // Buckets of both groups take turns.
  const LargestMoment largest = largest_moment(
      held, {.sums = sums_that_wait(slices),
             .owners = layout.divides_moments ? layout.copies() : 1,
             .exchanged = std::max(exchanged(of_share, layout.copies()), exchanged(of_all, layout.ranks()))});
  std::vector<MemoryPart> parts = memory_parts(held, largest, slices);
  const std::int64_t of_evaluation = divided_weights(layout, facts) - largest.bytes();
  if (layout.tensor > 1 && of_evaluation > 0)
    parts.push_back({"whole weights of an evaluation", "beyond what only steps hold", of_evaluation});
  if (facts.program > 0) parts.push_back({"program", "", facts.program});
  return parts;
}

// What tensor ranks sum: after attention and after the feed-forward of each block, forward and backward, and the
// embedding, where they divide the vocabulary (Shoeybi et al., 2019, section 3); then they exchange three numbers of
// each token for its loss, too, of one block of logits after the other.
double seconds_of_tensors(const Layout& layout, const StepFacts& facts, const Network& network) {
  if (layout.tensor == 1) return 0;
  const TransformerShape& shape = *facts.shape;
  const std::int64_t tokens = facts.tokens_of_slice / layout.context;
  const double bytes = real(tokens * shape.width) * bytes_of_number,
               sums = real(shape.layers) * (4 + 2 * share_made_again(shape));
  const RankGroup group{layout.tensor, 1};
  const double of_layers = sums * seconds_of_all_reduce(bytes, group, network);
  if (shape.vocabulary % layout.tensor != 0) return of_layers;
  const double of_losses = 3 * bytes_of_number * real(tokens * (layout.tensor - 1)),
               logits = real(tokens * shape.vocabulary / layout.tensor) * bytes_of_number,
               blocks = std::ceil(logits / real(nn::head_logits_bytes));
  return of_layers + 2 * seconds_of_all_reduce(bytes, group, network) + seconds_of_gather(of_losses, group, network) +
         (blocks - 1) * seconds_of_gather(0, group, network);
}

// Exchanges that carry two or three tensors of so many bytes.
double exchanges_of_tensors(double tensors, double bytes) {
  return distributed::travel_together(static_cast<std::int64_t>(bytes)) ? 1 : tensors;
}

// Nothing is computed meanwhile, here.
double seconds_of_texts(const Layout& layout, const StepFacts& facts, const Network& network) {
  if (layout.context == 1) return 0;
  const TransformerShape& shape = *facts.shape;
  const RankGroup group{layout.context, layout.tensor};
  const double ranks = real(layout.context), forward = 1 + share_made_again(shape);  // times
  // Of a rank's tokens.
  const auto bytes_of = [&](std::int64_t heads) {
    return real(facts.tokens_of_slice) / ranks * real(heads * shape.head_dim) / real(layout.tensor) * bytes_of_number;
  };
  const double query = bytes_of(shape.heads), key = bytes_of(shape.key_heads),
               wait_of_gather = seconds_of_gather(0, group, network),
               wait_of_all_to_all = seconds_of_all_to_all(0, group, network);
  const std::int64_t of_head = layout.tensor * shape.sub_heads;
  if (distributed::ranks_divide_heads(layout.context, shape.heads / of_head, shape.key_heads / of_head)) {
    // Queries, keys and values to where their heads are, and outputs back; backward their gradients.
    const double inputs = query + 2 * key, to_others = (ranks - 1) / ranks;
    return real(shape.layers) * (forward + 1) *
           (seconds_of_all_to_all((inputs + query) * to_others, group, network) +
            exchanges_of_tensors(3, inputs) * wait_of_all_to_all);
  }
  // Keys and values go to all others forward, and again before their gradients go back, as much as around a ring (Liu
  // et al., 2023). They come in pieces, of which all but the first travel while the one before is used; gradients
  // of each piece are waited for.
  const double sent = 2 * key * (ranks - 1);
  const double all = 2 * key * ranks;
  const std::int64_t batch =
      std::max<std::int64_t>(1, facts.tokens_of_slice / std::max<std::int64_t>(1, shape.context));
  const auto pieces_of = [&](bool backward) {
    return real(distributed::gathered_pieces(static_cast<std::int64_t>(all), layout.context, shape.key_heads / of_head,
                                             batch, backward)
                    .count);
  };
  const auto gathered = [&](bool backward) {
    return seconds_of_gather(sent, group, network) +
           (exchanges_of_tensors(2, all / pieces_of(backward) / ranks) - 1) * wait_of_gather;
  };
  const double pieces = pieces_of(/*backward=*/true);
  const double gradients = seconds_of_all_to_all(sent, group, network) +
                           (pieces * exchanges_of_tensors(2, all / pieces) - 1) * wait_of_all_to_all;
  return real(shape.layers) * (forward * gathered(/*backward=*/false) + gathered(/*backward=*/true) + gradients);
}

double buckets_of(double bytes, std::int64_t ranks) {
  return std::ceil(bytes / real(distributed::bytes_of_a_bucket(static_cast<std::int64_t>(bytes), ranks)));
}

// Each of which waits for messages to go from rank to rank.
double exchanges_of(double bytes, std::int64_t ranks) {
  const auto all = static_cast<std::int64_t>(bytes);
  const double bucket = real(distributed::bytes_of_a_bucket(all, ranks));
  return std::ceil(bytes / bucket * real(distributed::exchanges_of_a_bucket(all, ranks)));
}

struct Exchanged {
  double sent, seconds;  // bytes of a rank; until all has come
};

// What an exchange adds to a step that goes on `meanwhile`, bucket by bucket; the work of processors, which all
// compute, cannot be hidden.
double exposed_seconds(double bytes, const Exchanged& exchanged, double meanwhile, const RankGroup& group,
                       const Network& network) {
  if (group.ranks == 1) return 0;
  const Link& link = link_of(spread_of(group, network), network);
  const double work = exchanged.sent * link.work, waiting = std::max(0.0, exchanged.seconds - work),
               buckets = buckets_of(bytes, group.ranks);
  return work + std::max(waiting / buckets, waiting - meanwhile * (1 - 1 / buckets));
}

// Gradients become sums while the last slice goes backward, which takes two thirds of it: on all ranks, or on their
// owners, from which weights come back while the first slice of the next step goes forward.
double seconds_of_gradients(double bytes, double slice, bool divides_moments, const RankGroup& group,
                            const Network& network) {
  constexpr double backward = 2.0 / 3, forward = 1.0 / 3;
  const double sent = sent_in_sum(bytes, group.ranks);
  if (!divides_moments)
    return exposed_seconds(bytes, {sent, seconds_of_sum(bytes, group, network)}, backward * slice, group, network);
  const Exchanged sums{sent / 2, seconds_to_owners(bytes, group, network)},
      weights{sent / 2, seconds_from_owners(bytes, group, network)};
  return exposed_seconds(bytes, sums, backward * slice, group, network) +
         exposed_seconds(bytes, weights, forward * slice, group, network) + seconds_of_gather(0, group, network);
}

std::string not_a_multiple(const char* key, std::int64_t of, std::int64_t got) {
  return expected_got(key, fmt::format("a multiple of {}", of), std::to_string(got));
}

// Why a number of ranks cannot share it; empty: they can.
std::string refused_data(std::int64_t ranks, const StepFacts& facts) {
  if (ranks > 1 && !std::has_single_bit(static_cast<std::uint64_t>(ranks)))
    return expected_got("ranks that share a batch", "a power of two, as their sums are a binary tree",
                        std::to_string(ranks));
  return facts.slices % ranks == 0 ? "" : not_a_multiple("training.micro_batches", ranks, facts.slices);
}

std::string refused_by_run(std::int64_t context, std::int64_t tensor, const StepFacts& facts) {
  if (facts.refused)
    if (std::string reason = facts.refused(context, tensor); !reason.empty()) return reason;
  return facts.shape->has_state ? "runs, but what it takes where a mechanism has a state is not counted here" : "";
}

std::string refused_context(std::int64_t ranks, const StepFacts& facts) {
  if (ranks == 1) return "";
  if (!facts.shape) return expected_got("model", "a language model, whose texts can be cut", "another");
  if (!std::has_single_bit(static_cast<std::uint64_t>(ranks)))
    return expected_got("ranks that share a text", "a power of two", std::to_string(ranks));
  // Each has a stretch of the first half and one of the second, for equal work under a causal mask.
  if (facts.shape->context % (2 * ranks) != 0) return not_a_multiple("model.context", 2 * ranks, facts.shape->context);
  return refused_by_run(ranks, 1, facts);
}

std::string refused_tensor(std::int64_t ranks, const StepFacts& facts) {
  if (ranks == 1) return "";
  if (!facts.shape) return expected_got("model", "a language model, whose heads can be divided", "another");
  if (facts.shape->has_state) return refused_by_run(1, ranks, facts);
  const std::int64_t heads = ranks * facts.shape->sub_heads;
  const std::tuple<const char*, std::int64_t, std::int64_t> divided[] = {
      {"model.heads", heads, facts.shape->heads},
      {"model.key_value_heads", heads, facts.shape->key_heads},
      {"model.feed_forward", ranks, facts.shape->feed_forward}};
  for (const auto& [key, multiple, count] : divided)
    if (count % multiple != 0) return not_a_multiple(key, multiple, count);
  return refused_by_run(1, ranks, facts);
}

void refuse(std::vector<Refusal>& refused, const Layout& layout, const std::string& reason, bool too_large = false) {
  const std::string text = layout.text();
  if (std::none_of(refused.begin(), refused.end(), [&](const Refusal& each) { return each.layout == text; }))
    refused.push_back({text, reason, too_large});
}

}  // namespace

std::string Layout::text() const {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (data > 1) add(fmt::format("data {}", data));
  if (context > 1) add(fmt::format("context {}", context));
  if (tensor > 1) add(fmt::format("tensor {}", tensor));
  if (divides_moments) add("moments divided");
  return text.empty() ? "one rank" : text;
}

std::string Layout::missing() const { return divides_moments && tensor > 1 ? "moments divided beside tensor" : ""; }

double seconds_to_owners(double bytes, const RankGroup& group, const Network& network) {
  if (group.ranks == 1) return 0;
  const Spread spread = spread_of(group, network);
  const double ranks = real(group.ranks), share = bytes / ranks;
  const double within = share * real(spread.on_node - 1) / network.within.bandwidth,
               between = share * real((group.ranks - spread.on_node) * spread.on_node * spread.groups_of_node) /
                         network.between.bandwidth;
  return std::max(spread.on_node > 1 ? within : 0, spread.leaves_node ? between : 0) +
         exchanges_of(bytes, group.ranks) * (ranks - 1) * link_of(spread, network).latency;
}

double seconds_from_owners(double bytes, const RankGroup& group, const Network& network) {
  if (group.ranks == 1) return 0;
  const Spread spread = spread_of(group, network);
  const double others = real(group.ranks - 1);
  return seconds_around_ring(bytes / real(group.ranks) * others, spread, network) +
         exchanges_of(bytes, group.ranks) * others * link_of(spread, network).latency;
}

double seconds_of_sum(double bytes, const RankGroup& group, const Network& network) {
  return seconds_to_owners(bytes, group, network) + seconds_from_owners(bytes, group, network);
}

double sent_in_sum(double bytes, std::int64_t ranks) { return 2 * bytes * real(ranks - 1) / real(ranks); }

double seconds_of_all_reduce(double bytes, const RankGroup& group, const Network& network) {
  const double others = real(group.ranks - 1);
  if (distributed::summed_by_all(static_cast<std::int64_t>(bytes), group.ranks))
    return seconds_of_gather(others * bytes, group, network);
  const double to_others = others / real(group.ranks) * bytes;
  return seconds_of_all_to_all(to_others, group, network) + seconds_of_gather(to_others, group, network);
}

double seconds_of_gather(double bytes, const RankGroup& group, const Network& network) {
  return seconds_of_exchange(bytes, group, network, &Link::around_ring);
}

double seconds_of_all_to_all(double bytes, const RankGroup& group, const Network& network) {
  return seconds_of_exchange(bytes, group, network, &Link::all_to_all);
}

std::int64_t LayoutCost::bytes() const { return bytes_of_parts(memory); }

LayoutCost layout_cost(const Layout& layout, const StepFacts& facts, const Network& network) {
  const double slices = real(facts.slices) / real(layout.data),
               of_tokens = (facts.slice_seconds - facts.fixed_seconds) / real(layout.context),
               of_slice = (facts.fixed_seconds + of_tokens) / real(layout.tensor);
  const RankGroup copies{layout.copies(), layout.tensor}, all{layout.ranks(), 1};
  LayoutCost cost{.layout = layout, .memory = memory_of(layout, facts)};
  const double share = share_of_weights(layout, facts);
  cost.computation =
      slices * of_slice + facts.rest_seconds * share / real(layout.divides_moments ? layout.copies() : 1);
  // What is not divided all ranks add, and the shares of the rest those that have the same.
  const double of_all = real(learned_by_all(layout, facts)), of_share = real(facts.held.learned) * share - of_all;
  // Losses are gathered first: their number, then they.
  const bool divides = layout.divides_moments;
  cost.communication = 2 * seconds_of_gather(0, all, network) +
                       seconds_of_gradients(of_share, of_slice, divides, copies, network) +
                       (of_all > 0 ? seconds_of_gradients(of_all, of_slice, divides, all, network) : 0) +
                       slices * (seconds_of_tensors(layout, facts, network) + seconds_of_texts(layout, facts, network));
  return cost;
}

LayoutForecast layout_forecast(std::int64_t ranks, const StepFacts& facts, const Network& network,
                               std::optional<std::int64_t> room) {
  LayoutForecast forecast;
  const std::int64_t within = std::min(ranks, network.ranks_per_node);
  for (std::int64_t tensor = 1; tensor <= within; ++tensor) {
    if (ranks % tensor != 0) continue;
    if (const std::string reason = refused_tensor(tensor, facts); !reason.empty()) {
      refuse(forecast.refused, {.tensor = tensor}, reason);
      continue;
    }
    for (std::int64_t context = 1; tensor * context <= within; ++context) {
      if (ranks % (tensor * context) != 0) continue;
      const std::int64_t data = ranks / tensor / context;
      const std::string of_context = refused_context(context, facts), of_data = refused_data(data, facts);
      if (!of_context.empty()) {
        refuse(forecast.refused, {.context = context}, of_context);
        continue;
      }
      if (const std::string of_both = context > 1 && tensor > 1 ? refused_by_run(context, tensor, facts) : "";
          !of_both.empty()) {
        refuse(forecast.refused, {.context = context, .tensor = tensor}, of_both);
        continue;
      }
      if (!of_data.empty()) {
        refuse(forecast.refused, {.data = data}, of_data);
        continue;
      }
      for (const bool divides : {false, true}) {
        const Layout layout{.data = data, .context = context, .tensor = tensor, .divides_moments = divides};
        if (divides && (layout.copies() == 1 || !facts.moments_divide)) continue;
        LayoutCost cost = layout_cost(layout, facts, network);
        if (room && cost.bytes() > *room)
          refuse(forecast.refused, layout,
                 expected_got("memory", "at most " + pages::byte_size(*room), pages::byte_size(cost.bytes())),
                 /*too_large=*/true);
        else
          forecast.layouts.push_back(std::move(cost));
      }
    }
  }
  std::stable_sort(forecast.layouts.begin(), forecast.layouts.end(),
                   [](const LayoutCost& a, const LayoutCost& b) { return a.step_seconds() < b.step_seconds(); });
  return forecast;
}

}  // namespace cogwheel::runs
