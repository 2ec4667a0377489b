// Associative recall with several queries: "k1 v3 k7 v1 k1 v5 | k7 k1" is to be answered by "v1 v5", the value that was
// written last for each key. What a fixed state can hold, and whether it can be overwritten, is the question. Arora,
// Eyuboglu, Timalsina, Johnson, Poli, Zou, Rudra and Ré, "Zoology: Measuring and Improving Recall in Efficient Language
// Models" (2023), section 3. Unlike there, queries follow the pairs at once, every key is asked for, in random order,
// and a share of the keys is written twice.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic::recall {
namespace {

constexpr std::int64_t most_pairs = 64, first_pairs = 4;

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "recall",
      .summary = "give the value that was last written for each of several keys",
      .item = "token",
      .data =
          "Random keys with random values, some overwritten later, then queries for every key; few pairs come as often "
          "as many.",
      .does_better = "recalls better",
      .do_better = "recall better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per answer"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

struct Options {
  std::int64_t pairs = 0;     // the most in training; 0: as many as fit into the context, up to most_pairs
  double overwritten = 0.25;  // the share of keys that are written twice
  std::int64_t keys = 64, values = 16;
  std::int64_t doubled_after = 0;  // steps in which training shows first_pairs at most, and each time twice as many
};

// Keys come first in the vocabulary, then values, then the separator.
class Recall : public SampledTask {
 public:
  Recall(const Options& options, runs::TaskOptions recorded) : SampledTask(std::move(recorded)), options_(options) {}

  const runs::TaskDescription& description() const override { return describe(); }

 protected:
  std::int64_t vocabulary() const override { return options_.keys + options_.values + 1; }
  std::string label(Token token) const override {
    if (token >= options_.keys + options_.values) return "|";
    return token < options_.keys ? "k" + std::to_string(token) : "v" + std::to_string(token - options_.keys);
  }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<Recall>(*this); }

  Difficulty difficulty(std::int64_t context) const override {
    std::int64_t largest = 1;
    while (largest < options_.keys && tokens(largest + 1) <= context) ++largest;
    return {.name = "pairs",
            .trained = options_.pairs > 0 ? options_.pairs : std::min(largest, most_pairs),
            .largest = largest};
  }
  std::int64_t tokens(std::int64_t pairs) const override { return 2 * (pairs + overwritten(pairs)) + 1 + pairs; }

  std::int64_t trained_at(std::int64_t step, std::int64_t trained) const override {
    if (options_.doubled_after == 0) return trained;
    const std::int64_t doublings = std::min<std::int64_t>(step / options_.doubled_after, 16);
    return std::min(trained, first_pairs << doublings);
  }
  // Each octave is as probable: a model learns to look up from few pairs, long before it can from many.
  std::int64_t drawn_difficulty(const Draws& draws, std::int64_t trained) const override {
    std::int64_t octaves = 1;
    while (trained >> octaves > 0) ++octaves;
    const std::int64_t most = trained >> draws.at(-1) % octaves, fewer = most / 2;
    return fewer + 1 + draws.at(-2) % (most - fewer);
  }

  void write(const Draws& draws, std::int64_t pairs, const Sequence& sequence) const override {
    std::int64_t drawn = 0;
    const auto below = [&](std::int64_t limit) { return static_cast<std::int64_t>(draws.at(drawn++)) % limit; };
    const auto shuffle = [&](std::vector<std::int64_t>& all, std::int64_t first_ones) {
      for (std::int64_t place = 0; place < first_ones; ++place)
        std::swap(all[static_cast<std::size_t>(place)],
                  all[static_cast<std::size_t>(place + below(std::ssize(all) - place))]);
    };
    std::vector<std::int64_t> keys(static_cast<std::size_t>(options_.keys));
    std::iota(keys.begin(), keys.end(), 0);
    shuffle(keys, pairs);
    keys.resize(static_cast<std::size_t>(pairs));
    std::vector<std::int64_t> writes = keys;
    writes.insert(writes.end(), keys.begin(), keys.begin() + overwritten(pairs));
    shuffle(writes, std::ssize(writes));
    constexpr std::int64_t none = -1;
    std::vector<std::int64_t> values(static_cast<std::size_t>(options_.keys), none);  // the last of each key
    std::size_t place = 0;
    for (const std::int64_t key : writes) {
      std::int64_t& value = values[static_cast<std::size_t>(key)];
      // A second value is another one.
      value = value == none ? below(options_.values) : (value + 1 + below(options_.values - 1)) % options_.values;
      sequence.inputs[place++] = key;
      sequence.inputs[place++] = options_.keys + value;
    }
    ++place;  // the separator is there
    // Every key once and, in a sequence that could hold more pairs, again: few pairs are not few answers.
    const std::size_t end =
        std::max(place + keys.size(), std::min(place + sequence.inputs.size() / 3, sequence.inputs.size()));
    for (std::size_t asked = 0; place < end; ++asked, ++place) {
      if (asked % keys.size() == 0) shuffle(keys, pairs);
      const std::int64_t key = keys[asked % keys.size()];
      sequence.inputs[place] = key;
      sequence.targets[place] = options_.keys + values[static_cast<std::size_t>(key)];
    }
  }

 private:
  std::int64_t overwritten(std::int64_t pairs) const {
    return static_cast<std::int64_t>(options_.overwritten * static_cast<double>(pairs));
  }

  Options options_;
};

}  // namespace
}  // namespace cogwheel::tasks::synthetic::recall

namespace cogwheel::tasks::synthetic {
runs::TaskEntry recall_task() {
  return {.description = recall::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            runs::TaskOptionReader reader(config.task);
            recall::Options options;
            options.pairs = reader.whole("pairs", options.pairs, {0, recall::most_pairs});
            options.overwritten = reader.number("overwritten", options.overwritten, {0, 1});
            options.keys = reader.whole("keys", options.keys, {std::max<std::int64_t>(2, options.pairs), 1 << 16});
            options.values = reader.whole("values", options.values, {2, 1 << 16});
            options.doubled_after = reader.whole("doubled_after", options.doubled_after, {0, 1'000'000});
            return std::make_shared<recall::Recall>(options, reader.finish());
          },
          .preset =
              [] {
                return sampled_preset("recall", "up to 16 pairs, tested up to 64; 2 layers, 2 heads, width 64",
                                      {{"pairs", std::int64_t{16}}, {"doubled_after", std::int64_t{400}}}, 256, 32,
                                      2000);
              }};
}
}  // namespace cogwheel::tasks::synthetic
