#include "cogwheel/tasks/handwriting/pen_sampling.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <random>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/tasks/handwriting/mixture_density.h"

namespace cogwheel::tasks::handwriting {
namespace {

at::Tensor as_tensor(std::span<const StrokePoint> points) {
  const at::Tensor rows = at::empty({1, std::ssize(points), 3}, at::kFloat);
  float* to = rows.mutable_data_ptr<float>();
  for (const StrokePoint& point : points) {
    *to++ = point.dx;
    *to++ = point.dy;
    *to++ = point.ends ? 1.0F : 0.0F;
  }
  return rows;
}

// φ one position beyond the text is above every other (Graves 2013, section 5.1).
bool is_past_the_text(std::span<const float> window) {
  return std::all_of(window.begin(), window.end() - 1, [&](float each) { return window.back() > each; });
}

}  // namespace

GeneratedStrokes generate_strokes(Handwriting& model, std::span<const Token> text, const PenOptions& options,
                                  const PrimedStrokes* prime, const std::function<bool()>& on_point) {
  expect_within("bias", options.bias, pen_bias_range);
  const bool has_window = model->has_window();
  if (has_window && text.empty()) throw UsageError(expected_got("text to write", "at least one character", "none"));
  if (prime != nullptr && prime->points.empty())
    throw UsageError(expected_got("strokes to begin with", "at least one point", "none"));
  const torch::NoGradGuard no_grad;
  std::mt19937_64 generator(options.seed);
  const auto uniform = [&] { return uniform_number(generator); };

  std::vector<std::int64_t> whole;
  if (prime != nullptr) whole.assign(prime->text.begin(), prime->text.end());
  const auto written = std::ssize(whole);
  whole.insert(whole.end(), text.begin(), text.end());
  const WrittenText characters =
      model->text(torch::tensor(whole, at::kLong).unsqueeze(0), torch::tensor({std::ssize(whole)}, at::kLong));
  PenState state = model->first_state(1);
  GeneratedStrokes drawn;
  if (prime == nullptr) drawn.points.push_back(options.start);
  std::vector<StrokePoint> next = prime != nullptr ? prime->points : drawn.points;
  const auto begun = std::ssize(drawn.points);
  drawn.ended = !has_window;
  const std::int64_t most =
      has_window ? options.points_per_character * static_cast<std::int64_t>(text.size()) : options.points;
  while (std::ssize(drawn.points) < most) {
    const auto [y, window] = model->forward(as_tensor(next), characters, state);
    if (has_window) {
      const at::Tensor last = window.select(1, -1).squeeze(0).to(at::kFloat).cpu().contiguous();
      const std::span<const float> row(last.const_data_ptr<float>(), static_cast<std::size_t>(last.numel()));
      // Of the point that was read last; a prime's have none.
      if (!drawn.points.empty()) drawn.window.insert(drawn.window.end(), row.begin() + written, row.end());
      if (is_past_the_text(row) && std::ssize(drawn.points) > begun) {
        drawn.ended = true;
        return drawn;
      }
    }
    drawn.points.push_back(draw_point(y.select(1, -1).squeeze(0), options.bias, uniform));
    next = {drawn.points.back()};
    if (on_point && !on_point()) break;
  }
  // The last point has not been read.
  if (has_window) drawn.window.resize(drawn.points.size() * (text.size() + 1), 0.0F);
  return drawn;
}

}  // namespace cogwheel::tasks::handwriting
