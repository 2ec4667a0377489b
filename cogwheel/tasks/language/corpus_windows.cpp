#include "cogwheel/tasks/language/corpus_windows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/text/dataset.h"

namespace cogwheel::tasks::language {
namespace {

constexpr std::uint32_t corpus_stream = stream_named("corp");

std::int64_t windows_in(const text::CorpusPart& part, std::int64_t context) {
  return std::max<std::int64_t>(0, (part.tokens() - 1) / context);
}

std::vector<double> weights_in_use(const CorpusData& data) {
  if (!data.weights.empty()) return data.weights;
  std::vector<double> weights;
  for (const auto& corpus : data.corpora)
    weights.push_back(static_cast<double>(corpus->part(text::CorpusSide::training).tokens()));
  return weights;
}

}  // namespace

CorpusWindows::CorpusWindows(CorpusData data, std::int64_t context, std::uint64_t seed)
    : data_(std::move(data)), context_(context), seed_(seed), mixture_(weights_in_use(data_)) {
  for (const auto& corpus : data_.corpora) {
    const text::CorpusPart& training = corpus->part(text::CorpusSide::training);
    const text::CorpusPart& held_out = corpus->part(text::CorpusSide::held_out);
    const std::int64_t all = windows_in(training, context), kept = data_.for_tuning ? all * 9 / 10 : all;
    training_.push_back({&training, 0, kept});
    evaluated_.push_back(data_.for_tuning ? Range{&training, kept, all - kept}
                                          : Range{&held_out, 0, windows_in(held_out, context)});
    if (kept == 0)
      throw Error(expected_got(corpus->folder().string(),
                               "a window of " + std::to_string(context) + " tokens and the one after them to train on",
                               std::to_string(training.tokens()) + " tokens"));
  }
  const std::int64_t available = std::accumulate(evaluated_.begin(), evaluated_.end(), std::int64_t{0},
                                                 [](std::int64_t sum, const Range& each) { return sum + each.count; });
  if (available == 0)
    throw Error(expected_got(data_.corpora.front()->folder().string(),
                             "at least " + std::to_string(context + 1) + " tokens that are held out, for the context",
                             std::to_string(data_.corpora.front()->part(text::CorpusSide::held_out).tokens())));
  const std::int64_t wanted = text::limited_window_count(available, context, data_.evaluated_tokens);
  for (std::size_t corpus = 0; corpus < evaluated_.size(); ++corpus) {
    const Range& range = evaluated_[corpus];
    const double share = static_cast<double>(mixture_.share(static_cast<std::int64_t>(corpus))) /
                         static_cast<double>(CorpusMixture::period);
    const auto count = std::min(
        range.count,
        evaluated_.size() == 1 ? wanted : static_cast<std::int64_t>(std::ceil(static_cast<double>(wanted) * share)));
    for (std::int64_t window = 0; window < count; ++window)
      evaluated_windows_.push_back({range.part, (range.first + window * range.count / count) * context});
  }
}

CorpusWindows::Window CorpusWindows::training_window(std::int64_t number) const {
  const CorpusMixture::Place place = mixture_.at(number);
  const Range& range = training_[static_cast<std::size_t>(place.corpus)];
  const std::uint64_t seed = random_of({seed_, corpus_stream, static_cast<std::uint64_t>(place.corpus)});
  const KeyedOrder order(static_cast<std::uint64_t>(range.count), seed,
                         static_cast<std::uint64_t>(place.of_corpus / range.count));
  const auto window = static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(place.of_corpus % range.count)));
  return {range.part, (range.first + window) * context_};
}

runs::Batch CorpusWindows::filled(const std::vector<Window>& windows) const {
  const std::int64_t count = std::ssize(windows);
  const auto empty = [&] { return at::empty({count, context_}, at::kLong); };
  runs::Batch batch{empty(), empty(), count * context_};
  if (data_.documents) batch.positions = empty();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(context_) + 1);
  for (std::int64_t row = 0; row < count; ++row) {
    const Window& window = windows[static_cast<std::size_t>(row)];
    const auto start_of_row = [&](at::Tensor& tensor) {
      return tensor.mutable_data_ptr<std::int64_t>() + row * context_;
    };
    window.part->read(window.start, tokens);
    std::int64_t* const targets = start_of_row(batch.targets);
    std::copy(tokens.begin(), tokens.end() - 1, start_of_row(batch.inputs));
    std::copy(tokens.begin() + 1, tokens.end(), targets);
    if (!data_.documents) continue;
    std::int64_t* const positions = start_of_row(batch.positions);
    std::int64_t begin = 0;
    const auto fill_up_to = [&](std::int64_t end) {
      std::iota(positions + begin, positions + end, std::int64_t{0});
      begin = end;
    };
    for (const std::int64_t place : window.part->ends_within(window.start, window.start + context_)) {
      const std::int64_t end = place - window.start;
      targets[end - 1] = ignored_target;
      fill_up_to(end);
    }
    fill_up_to(context_);
  }
  return batch;
}

runs::Batch CorpusWindows::rows(std::int64_t first, std::int64_t count) const {
  std::vector<Window> windows;
  for (std::int64_t number = first; number < first + count; ++number) windows.push_back(training_window(number));
  return filled(windows);
}

std::int64_t CorpusWindows::evaluated_windows(std::int64_t tokens) const {
  return text::limited_window_count(std::ssize(evaluated_windows_), context_, tokens);
}

runs::Batch CorpusWindows::evaluated_rows(std::int64_t tokens) const {
  const std::int64_t all = std::ssize(evaluated_windows_), count = evaluated_windows(tokens);
  std::vector<Window> windows;
  for (std::int64_t row = 0; row < count; ++row)
    windows.push_back(evaluated_windows_[static_cast<std::size_t>(row * all / count)]);
  return filled(windows);
}

}  // namespace cogwheel::tasks::language
