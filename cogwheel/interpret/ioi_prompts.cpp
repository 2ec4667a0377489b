#include "cogwheel/interpret/ioi_prompts.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel::interpret {

IoiPrompts draw_ioi_prompts(std::int64_t count, std::uint64_t seed) {
  IoiPrompts drawn;
  const std::int64_t longest = tasks::synthetic::longest_ioi_prompt(tasks::synthetic::most_ioi_openings);
  const auto numbers = [&] { return at::zeros({count}, at::kLong); };
  drawn.clean = {at::full({count, longest}, tasks::synthetic::ioi_tokenizer()->vocabulary() - 1, at::kLong), numbers(),
                 numbers(), numbers()};
  drawn.corrupted = drawn.clean.tokens.clone();
  for (std::int64_t row = 0; row < count; ++row) {
    NumberedDraws draws(seed, stream_named("stud"), static_cast<std::uint64_t>(row));
    drawn.prompts.push_back(tasks::synthetic::draw_ioi_prompt(draws, tasks::synthetic::IoiPairs::unseen,
                                                              row % (1 + tasks::synthetic::most_ioi_openings)));
    const tasks::synthetic::IoiPrompt& prompt = drawn.prompts.back();
    const tasks::synthetic::IoiPrompt other = tasks::synthetic::with_other_names(prompt, draws);
    for (std::size_t place = 0; place < prompt.tokens.size(); ++place) {
      drawn.clean.tokens[row][static_cast<std::int64_t>(place)] = static_cast<std::int64_t>(prompt.tokens[place]);
      drawn.corrupted[row][static_cast<std::int64_t>(place)] = static_cast<std::int64_t>(other.tokens[place]);
    }
    drawn.clean.end[row] = static_cast<std::int64_t>(prompt.end());
    drawn.clean.answer[row] = static_cast<std::int64_t>(prompt.io);
    drawn.clean.foil[row] = static_cast<std::int64_t>(prompt.subject);
  }
  return drawn;
}

}  // namespace cogwheel::interpret
