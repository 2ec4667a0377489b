#include "cogwheel/tasks/language/language_modelling.h"

#include <random>

#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/random_tokens.h"

namespace cogwheel::tasks::language {
namespace {

std::shared_ptr<const text::Dataset> random_text(std::int64_t vocabulary) {
  constexpr std::int64_t tokens = 1 << 20;
  auto data = std::make_shared<text::Dataset>();
  data->name = "random tokens";
  data->tokenizer = std::make_shared<text::NumberedTokens>(vocabulary);
  std::mt19937_64 generator(0);
  for (auto* part : {&data->training, &data->held_out}) *part = text::random_tokens(tokens, 0, vocabulary, generator);
  return data;
}

}  // namespace

std::shared_ptr<const runs::Task> random_language_modelling(const runs::RunConfig& config, const runs::RandomItems&) {
  return make_language_modelling(random_text(runs::given_vocabulary(config, {1, 1 << 30})), {}, 0, Lessons(config, {}));
}

}  // namespace cogwheel::tasks::language
