#include "cogwheel/tasks/language/text_samples.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/language/text_generation.h"
#include "cogwheel/tasks/language/written_text.h"
#include "cogwheel/text/text_lines.h"
#include "cogwheel/text/text_tokens.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::tasks::language {
namespace {

struct ModelAndTokenizer {
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<nn::NarrowWeights> narrow = {};  // null: weights are read as they are
};

ModelAndTokenizer load(const runs::RunFolder& folder, nn::NumberType weights) {
  ModelAndTokenizer loaded{load_language_model(folder), text::load_tokenizer(folder.tokenizer_path())};
  if (const std::int64_t vocabulary = options_of(*loaded.model).vocabulary; vocabulary < loaded.tokenizer->vocabulary())
    throw Error(expected_got(folder.tokenizer_path().string(),
                             "at most " + std::to_string(vocabulary) + " tokens, as many as the model has",
                             std::to_string(loaded.tokenizer->vocabulary())));
  loaded.narrow = narrow_weights(*loaded.model, weights, true);
  return loaded;
}

// A prompt a line, or in JSON lines an object with "prompt".
std::vector<std::string> prompts_in(const std::filesystem::path& path) {
  const bool json = path.extension() == ".jsonl";
  std::vector<std::string> prompts;
  std::size_t number = 0;
  for (std::string& line : text::read_text_lines(path).lines) {
    ++number;
    if (!json) {
      prompts.push_back(std::move(line));
      continue;
    }
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("prompt") || !object["prompt"].is_string())
      throw Error(expected_got(path.string() + ", line " + std::to_string(number), "an object with \"prompt\", a text",
                               object.is_discarded() ? "no JSON" : "another"));
    prompts.push_back(object["prompt"]);
  }
  if (prompts.empty()) throw Error(expected_got(path.string(), "a prompt at least", "none"));
  return prompts;
}

// What is written of sequences that are made side by side, one after another: the first that has not ended is written
// as it comes, the others wait.
class InOrder {
 public:
  // `before` is written before the text of each number.
  InOrder(std::function<std::string(std::uint64_t number)> before, const runs::SampleWriter& write)
      : before_(std::move(before)), write_(write) {}

  // Whether to go on.
  bool add(std::uint64_t number, std::string_view text, bool ended) {
    Text& waiting = waiting_[number];
    waiting.text += text;
    waiting.ended = ended;
    bool go_on = write_("");  // asks for an interruption
    while (waiting_.contains(now_)) {
      Text& shown = waiting_[now_];
      if (!shown.begun) shown.text.insert(0, before_(now_));
      shown.begun = true;
      if (!shown.text.empty()) go_on = write_(std::exchange(shown.text, {})) && go_on;
      if (!shown.ended) break;
      waiting_.erase(now_++);
    }
    return go_on;
  }
  // The first that has not ended.
  std::uint64_t now() const { return now_; }

 private:
  struct Text {
    std::string text;
    bool ended = false, begun = false;
  };

  std::function<std::string(std::uint64_t)> before_;
  const runs::SampleWriter& write_;
  std::uint64_t now_ = 0;
  std::map<std::uint64_t, Text> waiting_;
};

TextGenerationOptions options_of(const runs::SampleRequest& request, const text::Tokenizer& tokenizer) {
  return {.sampling = request.sampling,
          .count = request.count.value_or(1),
          .batch = request.batch,
          .beam = std::max<std::int64_t>(1, request.beam),
          .end = tokenizer.end_of_document()};
}

void refuse(const char* option, const char* beside, bool given) {
  if (given)
    throw UsageError(expected_got(std::string("sample: ") + option, std::string("none beside ") + beside, "one"));
}

// One text that goes on after each line, with what the model keeps of all before.
void converse(const ModelAndTokenizer& loaded, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  refuse("--prompts", "--interactive", !request.prompts.empty());
  refuse("--count", "--interactive", request.count.has_value());
  refuse("--json", "--interactive", request.json);
  refuse("--beam", "--interactive", request.beam > 1);
  refuse("--log-probabilities", "--interactive", request.sampling.likeliest >= 0);
  text::tokens_of(*loaded.tokenizer, request.prompt, "--prompt");  // or is refused before anybody types
  Generator generator(*loaded.model);
  bool begun = false;
  std::vector<Token> all;  // of the text so far
  const std::optional<Token> end = loaded.tokenizer->end_of_document();
  while (const std::optional<std::string> line = request.read_line()) {
    std::vector<Token> tokens;
    try {
      tokens = begun ? loaded.tokenizer->encode(*line, "the line")
                     : text::tokens_of(*loaded.tokenizer, request.prompt + *line, "the line");
    } catch (const Error& error) {
      request.warn(error.what());
      continue;
    }
    if (!begun) generator.enter(0, tokens, request.sampling);
    if (begun) generator.append(0, tokens);
    begun = true;
    all.insert(all.end(), tokens.begin(), tokens.end());
    WrittenText writer(request.sampling.stop);
    bool go_on = true;
    for (std::int64_t length = 0; go_on && !writer.stopped() && length < request.sampling.length; ++length) {
      const Token token = generator.step().front().chosen.token;
      if (token == end) break;
      go_on = write(writer.add(loaded.tokenizer->decode_next(all, token)));
      all.push_back(token);
    }
    write(writer.finish() + "\n");
  }
}

void sample_text(const runs::RunFolder& folder, const runs::SampleRequest& given, const runs::SampleWriter& write) {
  runs::SampleRequest request = given;
  request.sampling.cache = nn::narrow_type("sample: --cache", request.cache);
  const ModelAndTokenizer loaded = load(folder, nn::narrow_type("sample: --weights", request.weights));
  request.sampling.vocabulary = loaded.tokenizer->vocabulary();
  const nn::NarrowProducts narrow(loaded.narrow.get());
  if (request.interactive) return converse(loaded, request, write);
  refuse("--prompt", "--prompts", !request.prompts.empty() && !request.prompt.empty());
  if (request.sampling.likeliest >= 0 && !request.json)
    throw UsageError(expected_got("sample: --log-probabilities", "--json beside it", "none"));
  const std::vector<std::string> texts =
      request.prompts.empty() ? std::vector{request.prompt} : prompts_in(request.prompts);
  std::vector<std::vector<Token>> prompts;
  for (std::size_t index = 0; index < texts.size(); ++index)
    prompts.push_back(text::tokens_of(
        *loaded.tokenizer, texts[index],
        request.prompts.empty() ? "--prompt" : request.prompts.string() + ", prompt " + std::to_string(index + 1)));
  const TextGenerationOptions options = options_of(request, *loaded.tokenizer);
  const auto count = static_cast<std::uint64_t>(options.count);
  if (!request.json) {
    const std::uint64_t all = texts.size() * count;
    InOrder in_order(
        [&](std::uint64_t number) {
          return (all == 1 ? "" : fmt::format("{}=== {} of {} ===\n", number > 0 ? "\n" : "", number + 1, all)) +
                 texts[number / count];
        },
        write);
    generate_texts(*loaded.model, loaded.tokenizer.get(), prompts, options,
                   [&](const GeneratedText& made, std::string_view text, bool ended) {
                     return in_order.add(made.number, text, ended);
                   });
    return;
  }
  InOrder lines([](std::uint64_t number) { return number == 0 ? "" : "\n"; }, write);
  const auto add = [&](const GeneratedText& made) {
    nlohmann::ordered_json json{{"prompt", texts[made.number / count]}};
    json.update(to_json(made));
    return lines.add(made.number, json.dump(), true);
  };
  const auto made = generate_texts(*loaded.model, loaded.tokenizer.get(), prompts, options,
                                   [&](const GeneratedText& each, std::string_view, bool ended) {
                                     return ended ? add(each) : lines.add(each.number, "", false);
                                   });
  // After an interruption, of what was made by then as well.
  for (const GeneratedText& each : made)
    if (each.number >= lines.now()) add(each);
}

}  // namespace

runs::Sampler text_sampler() {
  return {{"--prompt", "--prompts", "--interactive", "--count", "--batch", "--json", "--length", "--repetition-penalty",
           "--temperature", "--top-k", "--top-p", "--min-p", "--stop", "--log-probabilities", "--sink", "--weights",
           "--cache", "--beam", "--seed"},
          sample_text};
}

}  // namespace cogwheel::tasks::language
