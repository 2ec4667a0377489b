#include "cogwheel/tasks/language/generator.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <set>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/tasks/language/beams.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/language/text_generation.h"
#include "cogwheel/text/tokenizer.h"
#include "support/usage_error_of.h"
#include "tasks/language/generating_model.h"

namespace cogwheel::tasks::language {
namespace {

LanguageModel model_to_sample() { return made_for_generation({.context = 8, .layers = 1}); }

const std::vector<Token> prompt = {4, 5, 6};

TEST(Sampling, RepeatsItselfForTheSameSeed) {
  LanguageModel model = model_to_sample();
  const auto first = sample(model, prompt, {.length = 40, .seed = 1});
  EXPECT_EQ(first.size(), 40u);
  EXPECT_EQ(first, sample(model, prompt, {.length = 40, .seed = 1}));
  EXPECT_NE(first, sample(model, prompt, {.length = 40, .seed = 2}));
}

TEST(Sampling, TemperatureZeroTakesTheLikeliest) {
  LanguageModel model = model_to_sample();
  const auto greedy = sample(model, prompt, {.length = 5, .temperature = 0});
  EXPECT_EQ(greedy, sample(model, prompt, {.length = 5, .top_k = 1, .seed = 99}));
  const torch::NoGradGuard no_grad;
  const at::Tensor logits = model(torch::tensor({4, 5, 6}, at::kLong).unsqueeze(0));
  EXPECT_EQ(greedy.front(), logits.select(1, -1).argmax().item<std::int64_t>());
}

TEST(Sampling, DrawsOnlyAmongTheTopK) {
  LanguageModel model = model_to_sample();
  std::set<Token> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    drawn.insert(sample(model, prompt, {.length = 1, .temperature = 50, .top_k = 3, .seed = seed}).front());
  EXPECT_EQ(drawn.size(), 3u);
}

TEST(Sampling, StopsWhenTold) {
  LanguageModel model = model_to_sample();
  int calls = 0;
  const auto tokens = sample(model, prompt, {.length = 50}, [&](Token) { return ++calls < 7; });
  EXPECT_EQ(tokens.size(), 7u);
}

TEST(Sampling, RefusesWhatCannotBe) {
  for (const runs::SamplingOptions& options : std::vector<runs::SamplingOptions>{{.temperature = -1},
                                                                                 {.length = -1},
                                                                                 {.top_k = -1},
                                                                                 {.top_p = 1.5},
                                                                                 {.min_p = -0.1},
                                                                                 {.repetition_penalty = 0},
                                                                                 {.stop = {"a", ""}}})
    EXPECT_THROW(runs::check(options), UsageError);
  LanguageModel model = model_to_sample();
  Generator generator(model);
  EXPECT_EQ(usage_error_of([&] { generator.enter(0, {4, 20}, {}); }), "prompt: expected tokens 0 to 19, got 20");
  EXPECT_EQ(usage_error_of([&] { generator.enter(0, prompt, {.sink = 2}); }),
            "sink: expected a model whose positions are rotary or none, got learned positions");
  EXPECT_TRUE(generator.empty());
  EXPECT_EQ(usage_error_of([&] { generate_texts(model, nullptr, {}, {}); }),
            "prompts: expected at least one, got none");
  const torch::NoGradGuard no_grad;
  model->parameters().front().fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(sample(model, prompt, {.length = 1}), Error);
}

// Of prompts of several lengths, some of them beyond the context, in batches that others enter and leave.
void expect_each_as_alone(LanguageModel& model, const std::string& name, std::int64_t sink = -1,
                          nn::NumberType cache = nn::NumberType::float32) {
  const runs::SamplingOptions options{
      .length = 14, .temperature = 0.8, .top_p = 0.95, .likeliest = 2, .sink = sink, .cache = cache};
  std::map<std::uint64_t, std::vector<ChosenToken>> together;
  Generator generator(model);
  const auto prompt_of = [](std::uint64_t number) {
    std::vector<Token> tokens(1 + 5 * number % 17);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>((3 * i + number) % 20);
    return tokens;
  };
  std::uint64_t next = 0;
  for (int step = 0; next < 7 || !generator.empty(); ++step) {
    if (next < 7 && (step % 3 == 0 || generator.empty())) {
      generator.enter(next, prompt_of(next), options);
      ++next;
    }
    for (const GeneratedToken& token : generator.step()) {
      together[token.sequence].push_back(token.chosen);
      if (std::ssize(together[token.sequence]) == options.length) generator.leave(token.sequence);
    }
  }
  for (const auto& [number, tokens] : together) {
    Generator alone(model);
    alone.enter(number, prompt_of(number), options);
    for (const ChosenToken& expected : tokens) {
      const ChosenToken got = alone.step().front().chosen;
      ASSERT_EQ(got.token, expected.token) << name << " " << number;
      ASSERT_EQ(got.log_probability, expected.log_probability) << name << " " << number;
      ASSERT_EQ(got.likeliest[1].log_probability, expected.likeliest[1].log_probability) << name << " " << number;
    }
  }
}

TEST(Generator, GivesEachSequenceTheBitsThatItGetsAlone) {
  for (const Mechanism& mechanism : all_mechanisms()) {
    const std::string name(mechanism.description.name);
    SCOPED_TRACE(name);
    LanguageModel model =
        made_for_generation({.context = 24, .layers = 1, .activation = "swiglu", .mechanism = name}, 3);
    expect_each_as_alone(model, name);
  }
}

TEST(Generator, GivesEachSequenceOfHybridsTheBitsThatItGetsAlone) {
  for (const char* mechanism : {"gla+softmax", "rwkv6+cog", "mamba2+differential", "gated_deltanet+symmetric"})
    for (const char* position : {"rotary", "none", "rotary_halves"}) {
      LanguageModel model = made_for_generation(
          {.context = 20, .layers = 2, .norm = "rms", .position = position, .mechanism = mechanism});
      expect_each_as_alone(model, mechanism);
      expect_each_as_alone(model, mechanism, 2);
    }
}

TEST(Generator, GivesEachSequenceTheBitsThatItGetsAloneWithNumbersOfFewerBits) {
  for (const char* mechanism : {"cog", "gla+softmax", "mamba2+differential", "rwkv6"})
    for (const nn::NumberType type : {nn::NumberType::bfloat16, nn::NumberType::int8}) {
      LanguageModel model = made_for_generation(
          {.context = 20, .layers = 2, .norm = "rms", .position = "rotary", .mechanism = mechanism}, 3);
      const auto narrow = narrow_weights(model, type, true);
      const nn::NarrowProducts in_force(narrow.get());
      const bool keeps_keys = std::string(mechanism) != "rwkv6";
      expect_each_as_alone(model, mechanism, -1, keeps_keys ? type : nn::NumberType::float32);
      expect_each_as_alone(model, mechanism, 2, keeps_keys ? type : nn::NumberType::float32);
    }
  LanguageModel recurrent = made_for_generation({.context = 20, .layers = 1, .mechanism = "rwkv6"});
  EXPECT_EQ(usage_error_of([&] { sample(recurrent, prompt, {.cache = nn::NumberType::int8}); }),
            "cache: expected a model in which a layer keeps keys, got rwkv6");
}

TEST(Generator, ReadsAPromptInBlocksAsInOnePass) {
  const torch::NoGradGuard no_grad;
  for (const char* mechanism : {"cog", "rwkv6+softmax"}) {
    LanguageModel model =
        made_for_generation({.context = 1200, .layers = 2, .position = "rotary", .mechanism = mechanism});
    model->to(at::kDouble);
    std::vector<Token> tokens(1100);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i * i % 20);
    const at::Tensor all = torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
    const at::Tensor expected = model(all).select(1, -1);
    nn::ModelState state = model->make_state(1);
    EXPECT_TRUE(at::allclose(read_in_blocks(model, state, tokens), expected, 1e-8, 1e-8)) << mechanism;
    EXPECT_TRUE(model->last_logits(all).equal(expected) ||
                at::allclose(model->last_logits(all), expected, 1e-12, 1e-12));
  }
}

// The keys of each layer are those of the tokens that are kept, turned to where they stand now.
TEST(Generator, ForgetsABlockAndTurnsTheKeysThatStay) {
  const torch::NoGradGuard no_grad;
  for (const char* position : {"rotary", "rotary_halves", "none"}) {
    LanguageModel model = made_for_generation({.context = 12, .layers = 1, .position = position, .mechanism = "cog"});
    model->to(at::kDouble);
    const at::Tensor tokens = torch::tensor({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}, at::kLong).unsqueeze(0);
    nn::ModelState state = model->make_state(1);
    model->forward(tokens, {.state = &state});
    state.forget(2, 5);
    // Of one layer, keys and values follow from their own token and its place alone.
    const at::Tensor kept = at::cat({tokens.slice(1, 0, 2), tokens.slice(1, 7)}, 1);
    nn::ModelState expected = model->make_state(1);
    model->forward(kept, {.state = &expected});
    const at::Tensor next = torch::tensor({7, 7}, at::kLong).unsqueeze(0);
    EXPECT_EQ(state.longest(), 7);
    EXPECT_TRUE(
        at::allclose(model->forward(next, {.state = &state}), model->forward(next, {.state = &expected}), 1e-10, 1e-10))
        << position;
  }
}

TEST(Generator, GoesOnAfterMoreTokens) {
  LanguageModel model = made_for_generation({.context = 32, .layers = 2, .mechanism = "cog"});
  const runs::SamplingOptions options{.temperature = 0};
  Generator generator(model), whole(model);
  generator.enter(0, prompt, options);
  std::vector<Token> text = prompt;
  for (int step = 0; step < 4; ++step) text.push_back(generator.step().front().chosen.token);
  const std::vector<Token> more = {1, 2, 3};
  generator.append(0, more);
  text.insert(text.end(), more.begin(), more.end());
  whole.enter(0, text, options);
  for (int step = 0; step < 4; ++step)
    EXPECT_EQ(generator.step().front().chosen.token, whole.step().front().chosen.token);
}

// log p of every text of three tokens.
TEST(Beams, FindTheMostProbableTextOfAll) {
  const torch::NoGradGuard no_grad;
  for (const char* mechanism : {"softmax", "gla+cog"})
    for (const bool ends : {false, true}) {
      LanguageModel model = made_for_generation({.context = 9, .layers = 2, .mechanism = mechanism});
      for (auto& parameter : model->parameters()) parameter.mul_(0.3);
      double best = -std::numeric_limits<double>::infinity();
      std::vector<Token> expected;
      const auto log_p = [&](const std::vector<Token>& tokens) {
        std::vector<std::int64_t> text(prompt.begin(), prompt.end());
        text.insert(text.end(), tokens.begin(), tokens.end());
        return model(torch::tensor(text).unsqueeze(0)).select(1, -1)[0].to(at::kDouble).log_softmax(0);
      };
      const Token end = 11;
      const auto consider = [&](std::vector<Token> tokens, double log, bool ended) {
        const double worth = log / static_cast<double>(tokens.size() + (ended ? 1 : 0));
        if (worth <= best) return;
        best = worth;
        expected = std::move(tokens);
      };
      const at::Tensor first = log_p({});
      bool any_ended = false;
      for (Token a = 0; a < 20; ++a) {
        if (ends && a == end) {
          consider({}, first[a].item<double>(), true);
          any_ended = true;
          continue;
        }
        const at::Tensor second = log_p({a});
        for (Token b = 0; b < 20; ++b) {
          const double log = (first[a] + second[b]).item<double>();
          if (ends && b == end)
            consider({a}, log, true);
          else if (!ends)
            consider({a, b}, log, false);
        }
      }
      const text::Hypothesis found =
          most_probable(model, prompt, 2, 400, ends ? std::optional<Token>(end) : std::nullopt);
      EXPECT_EQ(found.tokens, expected) << mechanism;
      EXPECT_EQ(found.ended, ends && any_ended);
      // A beam of one takes the likeliest token each time.
      EXPECT_EQ(most_probable(model, prompt, 5, 1, {}).tokens, sample(model, prompt, {.length = 5, .temperature = 0}));
    }
  LanguageModel model = model_to_sample();
  EXPECT_EQ(usage_error_of([&] { most_probable(model, prompt, 7, 2, {}); }),
            "prompt: expected at most 2 tokens, with 7 to follow by beams within the context, got 3");
}

TEST(Texts, EndWhereTheyAreToldTo) {
  LanguageModel model = made_for_generation({.context = 40, .layers = 1});
  const auto tokenizer = text::make_tokenizer("character", "abcdefghijklmnopqrst");
  const std::vector<std::vector<Token>> prompts = {prompt, {1}, {2, 3}};
  const TextGenerationOptions plain{.sampling = {.length = 30, .temperature = 2}, .count = 3, .batch = 4, .end = {}};
  const auto all = generate_texts(model, tokenizer.get(), prompts, plain);
  ASSERT_EQ(all.size(), 9u);
  std::map<std::uint64_t, std::string> shown;
  TextGenerationOptions stopped = plain;
  const std::string stop = all[4].text.substr(10, 2);
  stopped.sampling.stop = {stop};
  const auto cut = generate_texts(model, tokenizer.get(), prompts, stopped,
                                  [&](const GeneratedText& made, std::string_view text, bool) {
                                    shown[made.number] += text;
                                    return true;
                                  });
  for (std::size_t number = 0; number < all.size(); ++number) {
    EXPECT_EQ(all[number].text.size(), 30u);
    EXPECT_EQ(cut[number].text, all[number].text.substr(0, all[number].text.find(stop)));
    EXPECT_EQ(cut[number].text, shown[number]);
    EXPECT_EQ(name_of(cut[number].end), cut[number].text.size() < 30 ? "stop" : "length");
    for (std::size_t other = 0; other < number; ++other) EXPECT_NE(all[number].text, all[other].text);
  }
  EXPECT_EQ(name_of(cut[4].end), "stop");
  TextGenerationOptions ending = plain;
  ending.end = all[2].tokens[5].token;
  const auto ended = generate_texts(model, tokenizer.get(), prompts, ending)[2];
  EXPECT_LE(ended.tokens.size(), 5u);
  EXPECT_EQ(name_of(ended.end), "end_token");
  int calls = 0;
  const auto interrupted =
      generate_texts(model, tokenizer.get(), prompts, plain, [&](auto, auto, bool) { return ++calls < 3; });
  EXPECT_EQ(name_of(interrupted[8].end), "interrupted");
}

}  // namespace
}  // namespace cogwheel::tasks::language
