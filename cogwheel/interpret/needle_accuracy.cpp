#include "cogwheel/interpret/needle_accuracy.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/token.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {
namespace {

// Of one sequence: where the keys stand that were written once, and how many pairs there are.
struct WrittenPairs {
  std::map<std::int64_t, std::int64_t> place_of = {};
  std::int64_t count = 0;
};

WrittenPairs written_pairs(const std::int64_t* tokens, std::int64_t length, std::int64_t separator) {
  WrittenPairs pairs;
  std::map<std::int64_t, int> times;
  for (; 2 * pairs.count < length && tokens[2 * pairs.count] != separator; ++pairs.count) {
    ++times[tokens[2 * pairs.count]];
    pairs.place_of[tokens[2 * pairs.count]] = pairs.count;
  }
  std::erase_if(pairs.place_of, [&](const auto& each) { return times[each.first] > 1; });
  return pairs;
}

}  // namespace

double NeedleAccuracy::accuracy(int from, int to) const {
  double sum = 0, all = 0;
  for (int place = from; place <= to; ++place)
    sum += right.at(static_cast<std::size_t>(place)), all += asked.at(static_cast<std::size_t>(place));
  return sum / all;
}

NeedleAccuracy needle_accuracy(const at::Tensor& tokens, const at::Tensor& targets, const at::Tensor& answers,
                               std::int64_t separator) {
  if (tokens.dim() != 2 || targets.sizes() != tokens.sizes() || answers.sizes() != tokens.sizes())
    throw UsageError(expected_got(
        "needle: tokens, targets and answers", "three of one shape, [sequences, tokens]",
        shape_text(tokens.sizes()) + ", " + shape_text(targets.sizes()) + ", " + shape_text(answers.sizes())));
  const at::Tensor rows = tokens.cpu().contiguous(), told = targets.cpu().contiguous(),
                   given = answers.cpu().contiguous();
  const std::int64_t length = rows.size(1);
  std::vector<WrittenPairs> pairs;
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    pairs.push_back(written_pairs(rows.const_data_ptr<std::int64_t>() + row * length, length, separator));
    most = std::max(most, pairs.back().count);
  }
  if (most < 3) throw UsageError(expected_got("needle", "sequences of three pairs or more", std::to_string(most)));
  NeedleAccuracy found;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const WrittenPairs& of = pairs[static_cast<std::size_t>(row)];
    if (2 * of.count <= most) continue;
    for (std::int64_t place = row * length + 2 * of.count + 1; place < (row + 1) * length; ++place) {
      const std::int64_t right = told.const_data_ptr<std::int64_t>()[place];
      const auto asked = of.place_of.find(rows.const_data_ptr<std::int64_t>()[place]);
      if (right == ignored_target || asked == of.place_of.end()) continue;
      const auto tenth = static_cast<std::size_t>(std::llround(
          NeedleAccuracy::tenths * static_cast<double>(asked->second) / static_cast<double>(of.count - 1)));
      found.asked[tenth] += 1;
      found.right[tenth] += given.const_data_ptr<std::int64_t>()[place] == right ? 1 : 0;
    }
  }
  return found;
}

}  // namespace cogwheel::interpret
