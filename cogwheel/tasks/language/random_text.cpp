#include "cogwheel/tasks/language/language_modelling.h"

#include <random>

#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/random_tokens.h"

namespace cogwheel {
namespace {

std::shared_ptr<const Dataset> random_text(std::int64_t vocabulary) {
  constexpr std::int64_t tokens = 1 << 20;
  auto data = std::make_shared<Dataset>();
  data->name = "random tokens";
  data->tokenizer = std::make_shared<NumberedTokens>(vocabulary);
  std::mt19937_64 generator(0);
  for (auto* part : {&data->training, &data->held_out}) *part = random_tokens(tokens, 0, vocabulary, generator);
  return data;
}

}  // namespace

std::shared_ptr<const Task> random_language_modelling(const RunConfig& config, const RandomItems&) {
  return make_language_modelling(random_text(given_vocabulary(config, {1, 1 << 30})));
}

}  // namespace cogwheel
