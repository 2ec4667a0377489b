#include "cogwheel/tasks/handwriting/handwriting_task.h"

#include <numeric>
#include <random>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/random_tokens.h"

namespace cogwheel::tasks::handwriting {
namespace {

class RandomStrokes final : public StrokeSource {
 public:
  RandomStrokes(std::int64_t vocabulary, const runs::RandomItems& items) : items_(items) {
    name_ = "random strokes";
    std::vector<char32_t> characters(static_cast<std::size_t>(vocabulary));
    std::iota(characters.begin(), characters.end(), U'!');
    if (vocabulary > 0) alphabet_ = std::make_shared<text::CharacterTokenizer>(std::move(characters));
    held_out_ = {training_sequence(0, 0)};
  }
  std::int64_t training_sequences() const override { return 0; }
  std::int64_t training_points() const override { return 0; }
  StrokeSequence training_sequence(std::uint64_t seed, std::uint64_t place) const override {
    std::mt19937_64 generator(random_of({seed, place}));
    StrokeSequence sequence;
    const auto offset = [&] { return static_cast<float>(2 * uniform_number(generator) - 1); };
    for (std::int64_t point = 0; point <= items_.length; ++point)
      sequence.points.push_back({.dx = offset(), .dy = offset(), .ends = generator() % 20 == 0});
    if (alphabet_)
      sequence.text = alphabet_->decode(text::random_tokens(items_.source, 0, alphabet_->vocabulary(), generator));
    return sequence;
  }
  std::shared_ptr<const StrokeSource> for_tuning() const override {
    return std::make_shared<RandomStrokes>(alphabet_ ? alphabet_->vocabulary() : 0, items_);
  }

 private:
  runs::RandomItems items_;
};

}  // namespace

std::shared_ptr<const runs::Task> random_handwriting(const runs::RunConfig& config, const runs::RandomItems& items) {
  constexpr std::int64_t most = 50'000;  // code points from ! on, up to those that are no characters
  return make_handwriting(std::make_shared<RandomStrokes>(runs::given_vocabulary(config, {0, most}), items));
}

}  // namespace cogwheel::tasks::handwriting
