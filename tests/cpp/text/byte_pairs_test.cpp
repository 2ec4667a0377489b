#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/threads_executor.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "cogwheel/text/byte_pairs/byte_pair_learning.h"
#include "cogwheel/text/learned_tokenizer.h"
#include "cogwheel/text/open_tokenizer.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

using Words = std::vector<std::string>;

template <WordPattern pattern>
Words scanned_words(std::string_view text) {
  const WordScanner<pattern> scanner(text);
  Words words;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = scanner.end(start);
    words.emplace_back(text.substr(start, end - start));
    start = end;
  }
  return words;
}

const std::string pairs_text =
    "The cat sat on the mat; the other cat didn't. Die Katze saß auf der Matte, 12345 Mal!\n\n  Indented   text\r\n";

std::shared_ptr<const Tokenizer> learned_pairs(std::int64_t vocabulary = 400) {
  return make_tokenizer("bpe", pairs_text + pairs_text, "text", vocabulary);
}

// Again and again the merge of least rank, the leftmost of those, by looking at all.
std::vector<Token> slowly_merged(const BytePairVocabulary& vocabulary, std::string_view word) {
  const auto results = merged_tokens(vocabulary, "v");
  const auto bytes = byte_tokens(vocabulary);
  std::map<std::pair<Token, Token>, std::size_t> ranks;
  for (std::size_t merge = 0; merge < vocabulary.merges.size(); ++merge) ranks[vocabulary.merges[merge]] = merge;
  std::vector<Token> tokens;
  for (const char byte : word) tokens.push_back(bytes[static_cast<unsigned char>(byte)]);
  for (;;) {
    std::size_t best = results.size(), place = 0;
    for (std::size_t at = 0; at + 1 < tokens.size(); ++at)
      if (const auto found = ranks.find({tokens[at], tokens[at + 1]}); found != ranks.end() && found->second < best)
        best = found->second, place = at;
    if (best == results.size()) return tokens;
    tokens[place] = results[best];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(WordScanner, CutsAsGpt2) {
  const auto words = scanned_words<WordPattern::gpt2>;
  EXPECT_EQ(words("I'll say it's  2024\n\n x"), (Words{"I", "'ll", " say", " it", "'s", " ", " 2024", "\n\n", " x"}));
  EXPECT_EQ(words("DON'T (é!) ﬁ²"), (Words{"DON", "'", "T", " (", "é", "!)", " ﬁ", "²"}));
  EXPECT_EQ(words("a   "), (Words{"a", "   "}));
  EXPECT_EQ(words("a\xff\xfe b"), (Words{"a", "\xff\xfe", " b"}));
}

TEST(WordScanner, CutsAsLlama3) {
  const auto words = scanned_words<WordPattern::llama3>;
  EXPECT_EQ(words("DON'T 12345!!\r\n\n  x"), (Words{"DON", "'T", " ", "123", "45", "!!\r\n\n", " ", " x"}));
  EXPECT_EQ(words("(word \"quoted\""), (Words{"(word", " \"", "quoted", "\""}));
  EXPECT_EQ(words(" \n \n  a'ſb"), (Words{" \n \n", " ", " a", "'ſ", "b"}));
  EXPECT_EQ(words("\tx\n"), (Words{"\tx", "\n"}));
}

TEST(BytePairs, GiveAnyBytesBack) {
  const auto tokenizer = learned_pairs();
  std::string bytes;
  for (int byte = 255; byte >= 0; --byte) bytes.push_back(static_cast<char>(byte));
  for (const std::string& text :
       {std::string(), bytes, pairs_text, "<|endoftext|>" + pairs_text, std::string("\xed\xa0\x80")})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_LT(tokenizer->encode(pairs_text).size(), pairs_text.size() / 3);
}

TEST(BytePairs, NamesOfSpecialTokensAreText) {
  const auto tokenizer = learned_pairs();
  ASSERT_TRUE(tokenizer->end_of_document());
  const Token end = *tokenizer->end_of_document();
  for (const Token token : tokenizer->encode("a<|endoftext|>b")) EXPECT_NE(token, end);
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{'a', end, 'b'}), "ab");
  ASSERT_EQ(tokenizer->special_tokens().size(), 1u);
  EXPECT_EQ(tokenizer->special_tokens()[0].name, "<|endoftext|>");
  EXPECT_EQ(tokenizer->decode_next(std::vector<Token>{'a'}, 'b'), "b");
  EXPECT_EQ(error_of([&] { (void)tokenizer->decode(std::vector<Token>{end + 1}); }),
            "token: expected below " + std::to_string(end + 1) + ", got " + std::to_string(end + 1));
}

// Words of every length, by the whole words, by what a thread remembers, by a look at all pairs, and by the heap.
TEST(BytePairs, MergeTheEarliestFirst) {
  const auto tokenizer = std::dynamic_pointer_cast<const BytePairTokenizer>(learned_pairs());
  std::mt19937 random(1);
  const std::string letters = "theca otin";
  for (const std::size_t length : {1u, 2u, 5u, 9u, 15u, 16u, 30u, 47u, 48u, 49u, 200u, 3000u})
    for (int round = 0; round < 20; ++round) {
      std::string word;
      while (word.size() < length) word.push_back(letters[random() % 5]);
      const auto expected = slowly_merged(tokenizer->learned(), word);
      EXPECT_EQ(tokenizer->encode(word), expected) << word;
      EXPECT_EQ(tokenizer->encode(word), expected) << word;
    }
}

TEST(BytePairs, ThreadsEncodeAtOnce) {
  const auto tokenizer = learned_pairs(), other = learned_pairs(300);
  const auto expected = tokenizer->encode(pairs_text), expected_other = other->encode(pairs_text);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        wrong += (tokenizer->encode(pairs_text) != expected) + (other->encode(pairs_text) != expected_other);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BytePairs, ARunKeepsThem) {
  const TemporaryFolder folder;
  const auto tokenizer = learned_pairs();
  save_tokenizer(*tokenizer, folder.path() / "tokenizer.json");
  const auto loaded = load_tokenizer(folder.path() / "tokenizer.json");
  EXPECT_EQ(loaded->to_json(), tokenizer->to_json());
  EXPECT_EQ(loaded->encode(pairs_text), tokenizer->encode(pairs_text));
  EXPECT_EQ(loaded->end_of_document(), tokenizer->end_of_document());
  EXPECT_EQ(open_tokenizer(folder.path())->to_json(), tokenizer->to_json());
}

TEST(BytePairs, LearnTheSameWithAnyNumberOfThreads) {
  const EachDocument documents = [](const auto& take) {
    std::mt19937 random(3);
    for (int document = 0; document < 40; ++document) {
      std::string text;
      while (text.size() < 20000) text += pairs_text.substr(random() % 50, random() % 60);
      take(text);
    }
  };
  const auto one = learn_tokenizer(documents, {.vocabulary = 700, .threads = 1}, "text");
  const auto three = learn_tokenizer(documents, {.vocabulary = 700, .threads = 3}, "text");
  EXPECT_EQ(one->to_json(), three->to_json());
  EXPECT_EQ(one->vocabulary(), 700);
}

// A long document is counted in parts, which cuts no word.
TEST(BytePairs, LearnTheSameFromALongDocument) {
  std::string text;
  while (text.size() < 3u << 18) text += pairs_text;
  const EachDocument whole = [&](const auto& take) { take(text); };
  ByteWordCounts counts;
  const std::string_view view = text;
  counts.add(std::span(&view, 1), SerialExecutor());
  const auto learned = std::dynamic_pointer_cast<const BytePairTokenizer>(
      learn_tokenizer(whole, {.vocabulary = 400, .threads = 2}, "text"));
  EXPECT_EQ(learned->learned().merges, learn_byte_pairs(counts, 400, "text").merges);
}

TEST(BytePairs, LearnWhatIsThere) {
  EXPECT_EQ(make_tokenizer("bpe", "abab", "t")->vocabulary(), 256 + 1 + 1);  // ab, which is there twice
  EXPECT_EQ(error_of([] { make_tokenizer("bpe", "", "t"); }), "t: expected text for a vocabulary, got none");
  EXPECT_THROW(make_tokenizer("bpe", "abab", "t", 257), UsageError);
}

nlohmann::json hugging_face(const BytePairVocabulary& vocabulary) {
  nlohmann::json vocab = nlohmann::json::object(), merges = nlohmann::json::array(), added = nlohmann::json::array();
  const auto printable = [&](Token token) {
    return printable_bytes(vocabulary.tokens[static_cast<std::size_t>(token)]);
  };
  for (Token token = 0; token < std::ssize(vocabulary.tokens) - 1; ++token) vocab[printable(token)] = token;
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(printable(left) + " " + printable(right));
  const auto end = std::ssize(vocabulary.tokens) - 1;
  added.push_back({{"id", end}, {"content", "<|endoftext|>"}, {"special", true}});
  return {{"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", {{"type", "ByteLevel"}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

TEST(OpenTokenizer, ReadsWhatOthersPublish) {
  const TemporaryFolder folder;
  const auto tokenizer = std::dynamic_pointer_cast<const BytePairTokenizer>(learned_pairs());
  const nlohmann::json json = hugging_face(tokenizer->learned());
  const auto path = folder.write("other.json", json.dump());
  EXPECT_EQ(open_tokenizer(path)->to_json(), tokenizer->to_json());

  nlohmann::json vocab = json["model"]["vocab"];
  vocab["<|endoftext|>"] = tokenizer->vocabulary() - 1;
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  folder.write("gpt2/vocab.json", vocab.dump());
  folder.write("gpt2/merges.txt", merges);
  for (const char* name : {"gpt2", "gpt2/vocab.json", "gpt2/merges.txt"})
    EXPECT_EQ(open_tokenizer(folder.path() / name)->to_json(), tokenizer->to_json()) << name;
}

TEST(OpenTokenizer, RefusesOtherKindsByName) {
  const TemporaryFolder folder;
  const nlohmann::json good =
      hugging_face(std::dynamic_pointer_cast<const BytePairTokenizer>(learned_pairs())->learned());
  const nlohmann::json end = good["added_tokens"][0]["id"];
  const auto refused = [&](const char* pointer, const nlohmann::json& value, const std::string& expected) {
    nlohmann::json changed = good;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    const auto path = folder.write("t.json", changed.dump());
    EXPECT_EQ(error_of([&] { open_tokenizer(path); }), path.string() + ": " + expected);
  };
  refused("/model/type", "Unigram", "model: expected BPE, got Unigram");
  refused("/normalizer", {{"type", "NFKC"}}, "normalizer: expected none, or NFC, got NFKC");
  refused("/decoder", {{"type", "Metaspace"}}, "decoder: expected ByteLevel, got Metaspace");
  refused("/pre_tokenizer", {{"type", "Whitespace"}},
          "pre_tokenizer: expected ByteLevel or Metaspace, or a normalizer that shows spaces, got Whitespace");
  refused("/pre_tokenizer/add_prefix_space", true, "pre_tokenizer: add_prefix_space: expected false, got true");
  refused("/pre_tokenizer",
          {{"type", "Sequence"},
           {"pretokenizers",
            {{{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}},
             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}},
          "pre_tokenizer: pretokenizers: pattern: Regex: expected that of GPT-2, Llama 3 or Qwen 2, got \"\\\\w+\"");
  refused("/post_processor", {{"type", "BertProcessing"}},
          "post_processor: expected ByteLevel or TemplateProcessing, got BertProcessing");
  refused("/model/byte_fallback", true, "model: byte_fallback: expected false, got true");
  refused("/model/dropout", 0.1, "model: dropout: expected none, got 0.1");
  refused("/added_tokens/0", {{"id", end}, {"content", "<a>"}, {"special", false}, {"rstrip", true}},
          "added_tokens: rstrip: expected false of a token that is not special, got true of \"<a>\"");
  refused("/added_tokens/0/id", 9000, "vocab: expected tokens without a gap, got no token " + end.dump());
  refused("/model/merges", {"t h", "nosuch h"}, "merges: expected tokens of the vocabulary, got nosuch");
  refused("/model/merges", {"q q"}, "expected merges that make tokens, got another in merge 1");
  refused("/model/vocab/Ġ", 5, "vocab: expected a text for each token, got two for 5");
  refused("/model/vocab/☃", end, "added_tokens: expected a text for each token, got two for " + end.dump());

  EXPECT_EQ(error_of([&] { open_tokenizer(folder.path()); }),
            folder.path().string() +
                ": expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt, got none of them");
  const auto alone = folder.write("half/vocab.json", "{}");
  EXPECT_EQ(error_of([&] { open_tokenizer(alone); }),
            alone.parent_path().string() + ": expected vocab.json and merges.txt, got no merges.txt");
  const auto text = folder.write("t.txt", "no tokenizer");
  EXPECT_EQ(error_of([&] { open_tokenizer(text); }),
            text.string() + ": expected a tokenizer as cogwheel writes it, got something else");
}

// Our own file with a byte changed anywhere is read or refused.
TEST(BytePairs, SurviveAnyChangedByte) {
  const TemporaryFolder folder;
  const std::string json = learned_pairs()->to_json();
  std::mt19937 random(2);
  for (int change = 0; change < 300; ++change) {
    std::string damaged = json;
    for (int byte = 0; byte <= change % 3; ++byte)
      damaged[random() % damaged.size()] = "0123456789[]{},\"ab"[random() % 18];
    try {
      const auto tokenizer = load_tokenizer(folder.write("t.json", damaged));
      tokenizer->decode(tokenizer->encode(pairs_text));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace cogwheel::text
