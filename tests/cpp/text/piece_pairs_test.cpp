// Pairs of pieces as `tokenizers` merges them; tests/python/test_language_tokenizers.py compares them with it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/text/open_tokenizer.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentence_tokenizer.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

using Tokens = std::vector<Token>;

// <unk> <s> ▁ a b ab ▁ab <sep>
PiecePairVocabulary small_pieces() {
  return {.tokens = {"<unk>", "<s>", "▁", "a", "b", "ab", "▁ab", "<sep>"},
          .merges = {{3, 4}, {2, 5}},
          .special = {0, 1},
          .added = {7},
          .unknown = 0,
          .beginning = 1};
}

TEST(PiecePairs, MergesWhatComesFirst) {
  EXPECT_EQ(PiecePairTokenizer(small_pieces()).encode("ab aab"), (Tokens{6, 2, 3, 5}));
  EXPECT_EQ(PiecePairTokenizer(small_pieces()).encode("a<s>"), (Tokens{2, 3, 0}));  // three characters as one
  EXPECT_EQ(PiecePairTokenizer(small_pieces()).encode("ab<sep>ab"), (Tokens{6, 7, 6}));
  EXPECT_EQ(PiecePairTokenizer(small_pieces()).encode(""), Tokens());
  PiecePairVocabulary whole = small_pieces();
  whole.whole_words = true;
  whole.merges.clear();
  EXPECT_EQ(PiecePairTokenizer(whole).encode("ab"), Tokens{6});
  EXPECT_EQ(PiecePairTokenizer(whole).encode("aba"), (Tokens{2, 3, 4, 3}));
}

TEST(PiecePairs, BeginWithASpaceWhereTheirsDo) {
  const auto encoded = [](LeadingSpace leading, const char* text) {
    PiecePairVocabulary vocabulary = small_pieces();
    vocabulary.leading = leading;
    return PiecePairTokenizer(vocabulary).encode(text);
  };
  EXPECT_EQ(encoded(LeadingSpace::always, " a<sep>b"), (Tokens{2, 2, 3, 7, 2, 4}));
  EXPECT_EQ(encoded(LeadingSpace::where_missing, " a<sep>b"), (Tokens{2, 3, 7, 2, 4}));
  EXPECT_EQ(encoded(LeadingSpace::first_if_missing, "a<sep>b"), (Tokens{2, 3, 7, 4}));
  EXPECT_EQ(encoded(LeadingSpace::never, "a<sep> b"), (Tokens{3, 7, 2, 4}));
}

TEST(PiecePairs, TakeBytesForWhatTheyLack) {
  PiecePairVocabulary vocabulary = small_pieces();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.tokens.push_back("<0x" + hexadecimal(static_cast<std::uint32_t>(byte), 2) + ">");
  const Token first = 8;
  EXPECT_EQ(error_of([&] {
              PiecePairVocabulary less = vocabulary;
              less.bytes = true;
              less.tokens[first + 10] = "other";
              PiecePairTokenizer tokenizer(less, "t");
            }),
            "t: expected a token for each byte, got no <0x0A>");
  vocabulary.bytes = true;
  const PiecePairTokenizer tokenizer(vocabulary);
  const Tokens tokens = tokenizer.encode("ab\n\xc3\xbc\xff");
  EXPECT_EQ(tokens, (Tokens{6, first + 0x0a, first + 0xc3, first + 0xbc, first + 0xff}));
  EXPECT_EQ(tokenizer.decode(tokens), "ab\n\xc3\xbc\xff");
  std::string in_parts;
  for (std::size_t place = 0; place < tokens.size(); ++place)
    in_parts += tokenizer.decode_next(std::span(tokens).first(place), tokens[place]);
  EXPECT_EQ(in_parts, "ab\n\xc3\xbc\xff");
  const TemporaryFolder folder;
  save_tokenizer(tokenizer, folder.path() / "t.json");
  const auto kept = load_tokenizer(folder.path() / "t.json");
  EXPECT_EQ(kept->to_json(), tokenizer.to_json());
  EXPECT_EQ(kept->beginning(), 1);
  EXPECT_EQ(error_of([&] { load_sentence_tokenizer(folder.path() / "t.json"); }),
            (folder.path() / "t.json").string() +
                ": expected a tokenizer of sentences, sentencepiece or words, got piece_pairs");
}

TEST(PiecePairs, RefuseOtherKindsByName) {
  const TemporaryFolder folder;
  const nlohmann::json space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const nlohmann::json good = {
      {"added_tokens", {{{"id", 0}, {"content", "<unk>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}}},
      {"decoder", {{"type", "Sequence"}, {"decoders", {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"vocab", {{"<unk>", 0}, {"▁", 1}, {"a", 2}, {"▁a", 3}}},
        {"merges", nlohmann::json::array({nlohmann::json::array({"▁", "a"})})}}}};
  const auto path = folder.write("tokenizer.json", good.dump());
  EXPECT_EQ(open_tokenizer(path)->encode("a b"), (Tokens{3, 1, 0}));
  const auto refused = [&](const char* pointer, const nlohmann::json& value, const std::string& expected) {
    nlohmann::json changed = good;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    folder.write("tokenizer.json", changed.dump());
    EXPECT_EQ(error_of([&] { open_tokenizer(path); }), path.string() + ": " + expected);
  };
  refused("/model/type", "Unigram", "model: expected BPE, got Unigram");
  refused("/model/type", "WordLevel", "model: expected BPE, got WordLevel");
  refused("/model/fuse_unk", false, "model: fuse_unk: expected true, got false");
  refused("/model/byte_fallback", true, "expected a token for each byte, got no <0x00>");
  refused("/pre_tokenizer/split", true, "pre_tokenizer: split: expected false, got true");
  refused("/pre_tokenizer/prepend_scheme", "last",
          "pre_tokenizer: prepend_scheme: expected always, first or never, got \"last\"");
  refused("/normalizer", {{"type", "NFKC"}}, "normalizer: expected Prepend or Replace of a space by ▁, got NFKC");
  refused("/decoder", {{"type", "Metaspace"}},
          "decoder: expected Replace of ▁ by a space, ByteFallback, Fuse, and Strip or nothing, got Metaspace");
  refused("/model/merges", nlohmann::json::array({nlohmann::json::array({"a", "a"})}),
          "expected merges that make tokens, got another in merge 1");
}

// Our own file with a byte changed anywhere is read or refused.
TEST(PiecePairs, SurviveAnyChangedByte) {
  const TemporaryFolder folder;
  const std::string json = PiecePairTokenizer(small_pieces()).to_json();
  std::mt19937 random(2);
  for (int time = 0; time < 2000; ++time) {
    std::string changed = json;
    changed[random() % changed.size()] = static_cast<char>(random() % 128);
    const auto path = folder.write("t.json", changed);
    try {
      const auto tokenizer = load_tokenizer(path);
      tokenizer->decode(tokenizer->encode("a b<sep>ab"));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace cogwheel::text
