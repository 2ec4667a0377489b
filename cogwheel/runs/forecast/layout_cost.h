// What a step costs on several ranks, by formulas: memory of a rank, seconds of computation and of communication, for
// each way in which ranks can share a step. docs/distributed.md says what is counted.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/runs/forecast/machine.h"
#include "cogwheel/runs/forecast/step_memory.h"

namespace cogwheel::runs {

// How ranks share a step. Rank r is number r % tensor of its tensor group, then counts the parts of a text, then the
// shares of the batch: ranks that exchange most are nearest.
struct Layout {
  std::int64_t data = 1;     // that share the slices of a batch
  std::int64_t context = 1;  // that share the tokens of each text
  std::int64_t tensor = 1;   // that share heads, hidden units and the vocabulary
  bool divides_moments = false;

  std::int64_t ranks() const { return data * context * tensor; }
  // Ranks with the same weights, or the same share of them.
  std::int64_t copies() const { return data * context; }
  std::string text() const;
  // What this build of Cogwheel cannot do of it; empty: it can run.
  std::string missing() const;
  bool operator==(const Layout&) const = default;
};

// What of a transformer tensor and context parallelism divide.
struct TransformerShape {
  std::int64_t layers = 0, width = 0, heads = 0, key_heads = 0, head_dim = 0, feed_forward = 0, vocabulary = 0;
  std::int64_t context = 0;
  bool has_state = false;      // a layer that is recurrent
  std::int64_t sub_heads = 1;  // heads of the mechanism that make one
  std::int64_t recompute = 0;  // training.recompute
};

// Of one rank that makes the step alone.
struct StepFacts {
  std::int64_t slices = 1, tokens_of_slice = 1;
  StepBytes held;
  std::vector<DividedBytes> divided = {};
  std::int64_t program = 0;    // bytes besides, of each rank
  double slice_seconds = 0;    // forward and backward
  double fixed_seconds = 0;    // of them, what a slice takes whatever its tokens: passes through weights, and calls
  double rest_seconds = 0;     // of a step besides: the batch, the norm of the gradient, the optimiser
  bool moments_divide = true;  // the optimiser goes number by number
  std::optional<TransformerShape> shape = {};
  // Why a run would not let so many ranks share a text and the heads, or nothing.
  std::function<std::string(std::int64_t context, std::int64_t tensor)> refused = {};
};

// Ranks that exchange, by their places: `stride` numbers apart.
struct RankGroup {
  std::int64_t ranks = 1, stride = 1;
};

// Seconds. Of distributed::Ranks::add of so many bytes: an all-to-all in which each rank sends a share to each other,
// the owner of its sum, and a gather of the sums around a ring. `within` is what each rank sends, `between` what all
// ranks of a node do.
double seconds_of_sum(double bytes, const RankGroup& group, const Network& network);
double seconds_to_owners(double bytes, const RankGroup& group, const Network& network);
double seconds_from_owners(double bytes, const RankGroup& group, const Network& network);
// Bytes that each rank sends in it.
double sent_in_sum(double bytes, std::int64_t ranks);
// Of distributed::sum_of_parts: around a ring (Patarasuk and Yuan, 2009) each rank sends 2 (P - 1) / P of the bytes,
// and where all ranks add all, P - 1 times as many.
double seconds_of_all_reduce(double bytes, const RankGroup& group, const Network& network);
// Of exchanges in which each rank sends so many bytes in all: to all others around a ring, or to each its own.
double seconds_of_gather(double bytes, const RankGroup& group, const Network& network);
double seconds_of_all_to_all(double bytes, const RankGroup& group, const Network& network);

struct LayoutCost {
  Layout layout;
  std::vector<MemoryPart> memory = {};        // of a rank
  double computation = 0, communication = 0;  // seconds of a step; communication that computation does not hide

  double step_seconds() const { return computation + communication; }
  std::int64_t bytes() const;
};

LayoutCost layout_cost(const Layout& layout, const StepFacts& facts, const Network& network);

struct Refusal {
  std::string layout, reason;
  bool too_large = false;  // it can be, but does not fit
};

struct LayoutForecast {
  std::vector<LayoutCost> layouts = {};  // that fit, fastest first
  std::vector<Refusal> refused = {};     // what cannot be, does not fit, or is not counted here
};

// All layouts of so many ranks whose groups for tensors and texts lie within a node. `room`: bytes of a rank.
LayoutForecast layout_forecast(std::int64_t ranks, const StepFacts& facts, const Network& network,
                               std::optional<std::int64_t> room);

}  // namespace cogwheel::runs
