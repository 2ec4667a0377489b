#include "cogwheel/text/sentence_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/sentencepiece/sentencepiece_module.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

extern int FLAGS_minloglevel;  // of libc10

namespace cogwheel::text {
namespace {

const std::vector<std::string> sentences{"Two young, White males are outside near many bushes.",
                                         "Several men in hard hats are operating a giant pulley system.",
                                         "A little girl climbing into a wooden playhouse.",
                                         "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
                                         "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
                                         "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."};

std::shared_ptr<const SentencePieceTokenizer> train(std::int64_t vocabulary) {
  const std::vector<std::string_view> lines(sentences.begin(), sentences.end());
  return SentencePieceTokenizer::train(lines, vocabulary, "a.en, a.de");
}

TEST(SentencePiece, GivesTheTextBackCased) {
  const auto tokenizer = train(120);
  EXPECT_EQ(tokenizer->vocabulary(), 120);
  for (const auto& sentence : sentences) EXPECT_EQ(tokenizer->decode(tokenizer->encode(sentence)), sentence);
  EXPECT_EQ(tokenizer->piece(SentenceTokens::padding), "<pad>");
  EXPECT_EQ(tokenizer->piece(SentenceTokens::begin), "<s>");
  EXPECT_EQ(tokenizer->piece(SentenceTokens::end), "</s>");
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_TRUE(tokenizer->encode("  \t").empty());
  EXPECT_EQ(tokenizer->encode("Ω").back(), SentenceTokens::unknown);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Ω")), " ⁇ ");
}

TEST(SentencePiece, ASpecialTokenDecodesToNothing) {
  const auto tokenizer = train(120);
  std::vector<Token> tokens = tokenizer->encode("A girl.");
  tokens.insert(tokens.begin(), SentenceTokens::begin);
  tokens.push_back(SentenceTokens::end);
  tokens.push_back(SentenceTokens::padding);
  EXPECT_EQ(tokenizer->decode(tokens), "A girl.");
  EXPECT_EQ(error_of([&] { (void)tokenizer->decode(std::vector<Token>{120}); }), "token: expected below 120, got 120");
}

TEST(SentencePiece, TheSameTextGivesTheSameBytes) { EXPECT_EQ(train(120)->model(), train(120)->model()); }

TEST(SentencePiece, TooLittleTextSaysWhichSizeIsPossible) {
  const std::string message = error_of([] { train(8000); }), before =
                                                                 "a.en, a.de: expected text for a vocabulary of "
                                                                 "8000 pieces, got text for ";
  ASSERT_TRUE(message.starts_with(before)) << message;
  EXPECT_EQ(train(std::stol(message.substr(before.size())))->vocabulary(), std::stol(message.substr(before.size())));
  const std::string small = error_of([] { train(20); }), least = "a.en, a.de: expected a vocabulary of ";
  ASSERT_TRUE(small.starts_with(least)) << small;
  EXPECT_GE(train(std::stol(small.substr(least.size())) + 1)->vocabulary(), 20);
  EXPECT_EQ(error_of([] { SentencePieceTokenizer::train({}, 20, "a"); }),
            "a: expected text for a vocabulary, got none");
}

TEST(SentencePiece, ARunKeepsIt) {
  const TemporaryFolder folder;
  const auto tokenizer = train(120);
  save_tokenizer(*tokenizer, folder.path() / "tokenizer.json");
  const auto loaded = load_sentence_tokenizer(folder.path() / "tokenizer.json");
  EXPECT_EQ(loaded->kind(), "sentencepiece");
  EXPECT_EQ(loaded->encode(sentences[0]), tokenizer->encode(sentences[0]));

  std::string json = read_file(folder.path() / "tokenizer.json");
  const std::size_t model = json.find("\"model\": \"") + 100;
  json[model] = json[model] == 'A' ? 'B' : 'A';
  const auto damaged = folder.write("damaged.json", json);
  EXPECT_EQ(error_of([&] { load_sentence_tokenizer(damaged); }),
            damaged.string() + ": expected a tokenizer as cogwheel writes it, got a damaged model");
  const auto byte = folder.write("byte.json", "{\"kind\": \"byte\"}");
  EXPECT_EQ(error_of([&] { load_sentence_tokenizer(byte); }),
            byte.string() + ": expected a tokenizer of sentences, sentencepiece or words, got byte");
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  EXPECT_EQ(error_of([] { SentencePieceTokenizer("nonsense", "m"); }),
            "m: expected a SentencePiece model, got something else");
  EXPECT_EQ(error_of([] { SentencePieceTokenizer("", "m"); }),
            "m: expected a SentencePiece model, got 0 pieces for what is unknown");
}

// Bytes that SentencePiece would follow out of its memory, or end the process for.
TEST(SentencePiece, SurvivesAnyChangedByte) {
  const std::string model = train(120)->model();
  std::mt19937 random(1);
  int refused = 0;
  for (int change = 0; change < 600; ++change) {
    std::string damaged = model;
    if (change % 3 == 0) damaged.resize(random() % damaged.size());
    for (int byte = 0; byte <= change % 4 && !damaged.empty(); ++byte)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const SentencePieceTokenizer tokenizer(damaged, "m");
      tokenizer.decode(tokenizer.encode("Zwei junge ﬁ weiße Ω １２ Männer\n\xff"));
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("m: expected a SentencePiece model, got ")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(SentencePiece, OfDocumentsKeepsEveryByte) {
  const std::vector<std::string_view> lines(sentences.begin(), sentences.end());
  const auto tokenizer = SentencePieceTokenizer::train(lines, 340, "a", false, SentencePieceStyle::documents);
  const std::string text = "  Two   men\n\n in 2024: Ω 😀\tend ";
  const std::vector<Token> tokens = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(tokens), text);
  std::string streamed;
  for (std::size_t at = 0; at < tokens.size(); ++at)
    streamed += tokenizer->decode_next(std::span(tokens).first(at), tokens[at]);
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(tokenizer->beginning(), Token{1});
  EXPECT_EQ(tokenizer->end_of_document(), Token{2});
  EXPECT_EQ(tokenizer->special_tokens().size(), 3u);
  const TemporaryFolder folder;
  save_tokenizer(*tokenizer, folder.path() / "tokenizer.json");
  EXPECT_EQ(error_of([&] { load_sentence_tokenizer(folder.path() / "tokenizer.json"); }),
            (folder.path() / "tokenizer.json").string() +
                ": expected tokens 0 to 3 for padding, unknown, begin and end, got others");
}

TEST(SentencePiece, StreamsWhatItDecodes) {
  const auto tokenizer = train(120);
  std::vector<Token> tokens{SentenceTokens::begin, SentenceTokens::begin};
  for (const Token token : tokenizer->encode("A little girl Ω. Männer")) tokens.push_back(token);
  tokens.push_back(SentenceTokens::end);
  std::string streamed;
  for (std::size_t at = 0; at < tokens.size(); ++at)
    streamed += tokenizer->decode_next(std::span(tokens).first(at), tokens[at]);
  EXPECT_EQ(streamed, tokenizer->decode(tokens));
}

// Linked with each other, libsentencepiece would write over libtorch's flag of the same name.
TEST(SentencePiece, LeavesTheFlagsOfLibtorchAlone) {
  const int before = FLAGS_minloglevel;
  (void)sentencepiece();
  EXPECT_EQ(FLAGS_minloglevel, before);
  FLAGS_minloglevel = before + 1;
  EXPECT_EQ(train(120)->decode(train(120)->encode("girl")), "girl");
  EXPECT_EQ(FLAGS_minloglevel, before + 1);
  FLAGS_minloglevel = before;
}

TEST(WordTokenizer, WordsOfItsListAndUnknownOnes) {
  const TemporaryFolder folder;
  const WordTokenizer tokenizer({"dog", "the", "cat"});
  EXPECT_EQ(tokenizer.vocabulary(), 7);
  EXPECT_EQ(tokenizer.encode(" the  cat sat "), (std::vector<Token>{5, 6, SentenceTokens::unknown}));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{2, 5, 6, 1, 3, 0}), "the cat <unk>");
  EXPECT_EQ(tokenizer.decode_next(std::vector<Token>{2}, 5), "the");
  EXPECT_EQ(tokenizer.decode_next(std::vector<Token>{2, 5}, 6), " cat");
  EXPECT_EQ(tokenizer.decode_next(std::vector<Token>{2, 5}, 3), "");
  save_tokenizer(tokenizer, folder.path() / "tokenizer.json");
  EXPECT_EQ(load_sentence_tokenizer(folder.path() / "tokenizer.json")->encode("dog"), (std::vector<Token>{4}));
}

}  // namespace
}  // namespace cogwheel::text
