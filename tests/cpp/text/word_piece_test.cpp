#include "cogwheel/text/word_piece.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/text/bert_words.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::text {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The normalizer and pre-tokenizer of BertTokenizer, transformers 5.23.0 with tokenizers 0.23.3, made these words.
TEST(BertWords, AreThoseOfTheReference) {
  const struct {
    const char *text, *uncased, *cased;
  } table[] = {
      {"", "", ""},
      {" \t\r\n ", "", ""},
      {"Unaffable, running!  Hello\tworld?", "unaffable , running ! hello world ?",
       "Unaffable , running ! Hello world ?"},
      {"\u00dcber \u00dcBER u\u0308ber naïve CAF\u00c9 cafe\u0301", "uber uber uber naive cafe cafe",
       "\u00dcber \u00dcBER u\u0308ber naïve CAF\u00c9 cafe\u0301"},
      {"中文字 a中b 㐀䶿鿿𠀀𪛟\uf900\U0002fa1f", "中 文 字 a 中 b 㐀 䶿 鿿 𠀀 𪛟 豈 \U0002fa1f",
       "中 文 字 a 中 b 㐀 䶿 鿿 𠀀 𪛟 \uf900 \U0002fa1f"},
      {"한글 \u1112\u1161\u11ab いろは \u304c", "\u1112\u1161\u11ab\u1100\u1173\u11af \u1112\u1161\u11ab いろは か",
       "한글 \u1112\u1161\u11ab いろは \u304c"},
      {"ΟΔΟΣ Σ ς \u0390 \u1f00 \u1fb3 α\u0345", "οδοσ σ ς ι α α α", "ΟΔΟΣ Σ ς \u0390 \u1f00 \u1fb3 α\u0345"},
      {"İstanbul ISTANBUL ıstanbul ẞ ß", "istanbul istanbul ıstanbul ß ß", "İstanbul ISTANBUL ıstanbul ẞ ß"},
      {"a\u200bb a\u00adb a\ufeffb a\u2060b a\u180eb", "ab ab ab ab ab", "ab ab ab ab ab"},
      {"a\001b a\177b a\u0085b a\013b a\014b a\034b a�b a\ue000b \U000f0000", "ab ab ab ab ab ab ab ab",
       "ab ab ab ab ab ab ab ab"},
      {"a\u00a0b a\u2003b a\u2028b a\u2029b a\u3000b a\u1680b", "a b a b a b a b a b a b", "a b a b a b a b a b a b"},
      {"a$b a^b a`b a~b a+b a=b a<b a|b a_b #ab ##a",
       "a $ b a ^ b a ` b a ~ b a + b a = b a < b a | b a _ b # ab # # a",
       "a $ b a ^ b a ` b a ~ b a + b a = b a < b a | b a _ b # ab # # a"},
      {"¿a? «b» – — \u2026 “a” 、b。 ·・ \u05be", "¿ a ? « b » – — \u2026 “ a ” 、 b 。 · ・ \u05be",
       "¿ a ? « b » – — \u2026 “ a ” 、 b 。 · ・ \u05be"},
      {"a\u037eb \u1fef", "a ; b `", "a \u037e b \u1fef"},
      {"😀 a😀b 👍🏽 ☃ a\u200d😀 €5 ¬\u00a8 \u2116",
       "😀 a😀b 👍🏽 ☃ a😀 €5 ¬\u00a8 \u2116", "😀 a😀b 👍🏽 ☃ a😀 €5 ¬\u00a8 \u2116"},
      {"\u0401 \u0419 и\u0306 \u1e9b\u0323 \u2126 \u212a \u212b \ufb01 \u01c4 \u01c6",
       "е и и ſ ω k a \ufb01 \u01c6 \u01c6",
       "\u0401 \u0419 и\u0306 \u1e9b\u0323 \u2126 \u212a \u212b \ufb01 \u01c4 \u01c6"},
      {"\u0300a a\u0327\u0301\u0300 b\u0338 a\u20ddb \u0903 \u0e33", "a a b a\u20ddb \u0903 \u0e33",
       "\u0300a a\u0327\u0301\u0300 b\u0338 a\u20ddb \u0903 \u0e33"},
      {"[MASK] [mask] [[SEP]]", "[ mask ] [ mask ] [ [ sep ] ]", "[ MASK ] [ mask ] [ [ SEP ] ]"},
      {"A\U0001d400 \U0001d7d8 \u2167 \u00bd \u00b2 ١ \u0378a", "a\U0001d400 \U0001d7d8 \u2177 \u00bd \u00b2 ١ \u0378a",
       "A\U0001d400 \U0001d7d8 \u2167 \u00bd \u00b2 ١ \u0378a"},
      {"it's (\"don't\") e-mail: x@y.z/%&*;{}", "it ' s ( \" don ' t \" ) e - mail : x @ y . z / % & * ; { }",
       "it ' s ( \" don ' t \" ) e - mail : x @ y . z / % & * ; { }"},
  };
  for (const auto& row : table) {
    EXPECT_EQ(joined(bert_words(row.text, false)), row.uncased) << row.text;
    EXPECT_EQ(joined(bert_words(row.text, true)), row.cased) << row.text;
  }
  EXPECT_EQ(joined(bert_words(std::string_view("a\0b", 3), false)), "ab");
  EXPECT_EQ(error_of([] { bert_words("a \xff", true, "t"); }), "t: expected text in UTF-8, got byte 0xFF at offset 2");
}

// As the two of the reference, in the order of its vocabulary.
const std::string reference_vocabulary =
    "[PAD] a b the un ##aff ##able aff able ##b ##s ##ing run ##ning hello wor ##ld ! ? [UNK] . , ' - ( ) # [ ] mask "
    "uber ##a ca ##fe 中 文 ᄒ ##ᅡ ##ᆫ ο ##δος ##δοσ [CLS] 2 ##0 ##4 x ##x ## [SEP] cog ##wh ##eel ##whee ##e [MASK]";

TEST(WordPiece, TokensAndTextAreThoseOfTheReference) {
  const WordPieceTokenizer tokenizer(split(reference_vocabulary), false);
  const struct {
    const char *text, *pieces, *decoded;
  } table[] = {
      {"unaffable", "un ##aff ##able", "unaffable"},
      {"Unaffable, RUNNING! Hello world?", "un ##aff ##able , run ##ning ! hello wor ##ld ?",
       "unaffable, running! hello world?"},
      {"the theunaffables", "the [UNK]", "the [UNK]"},
      {"un aff able unaff affable unaffablex", "un aff able un ##aff aff ##able un ##aff ##able ##x",
       "un aff able unaff affable unaffablex"},
      {"\u00dcber café unüberable", "uber ca ##fe [UNK]", "uber cafe [UNK]"},
      {"中文 a中b 한 글", "中 文 a 中 b \u1112 ##\u1161 ##\u11ab [UNK]", "中 文 a 中 b \u1112\u1161\u11ab [UNK]"},
      {"ΟΔΟΣ οδος", "ο ##δοσ ο ##δος", "οδοσ οδος"},
      {"2024 20 204 2 0", "[UNK] 2 ##0 2 ##0 ##4 2 [UNK]", "[UNK] 20 204 2 [UNK]"},
      {"##a # ##", "# # a # # #", "# # a # # #"},
      {"cogwheel cogwheels cogwhee cog-wheel", "[UNK] [UNK] cog ##whee cog - [UNK]", "[UNK] [UNK] cogwhee cog - [UNK]"},
      {"[MASK] [mask] [CLS]a[SEP] a[MASK]b [MASK [UNK] [PAD]x [[MASK]]",
       "[MASK] [ mask ] [CLS] a [SEP] a [MASK] b [ mask [UNK] [PAD] x [ [MASK] ]",
       "[MASK] [ mask ] [CLS] a [SEP] a [MASK] b [ mask [UNK] [PAD] x [ [MASK] ]"},
      {"The ( able ) . able, ! it's", "the ( able ) . able , ! [UNK] ' [UNK]", "the ( able ). able,! [UNK] ' [UNK]"},
      {"a😀 b", "[UNK] b", "[UNK] b"},
  };
  for (const auto& row : table) {
    const std::vector<Token> tokens = tokenizer.encode(row.text);
    std::vector<std::string> pieces;
    for (const Token token : tokens) pieces.push_back(tokenizer.piece(token));
    EXPECT_EQ(joined(pieces), row.pieces) << row.text;
    // Only here does it differ: three special tokens are left out.
    if (std::string_view(row.text).find("[SEP]") == std::string_view::npos) {
      EXPECT_EQ(tokenizer.decode(tokens), row.decoded) << row.text;
    }
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("[CLS] a [MASK] b [SEP] [PAD]")), "a [MASK] b");
}

TEST(WordPiece, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const WordPieceTokenizer tokenizer(split(reference_vocabulary + " \u00e9 ##\u00e9"), true);
  for (const std::string character : {"x", "\u00e9"}) {
    std::string word;
    for (int count = 0; count < 100; ++count) word += character;
    EXPECT_EQ(tokenizer.encode(word).size(), 100u);
    EXPECT_EQ(tokenizer.encode(word + character), std::vector<Token>{tokenizer.specials().unknown});
  }
}

TEST(WordPiece, SpecialTokensAreWhereTheVocabularyHasThem) {
  const WordPieceTokenizer tokenizer(split("a [MASK] ##a [SEP] ## [CLS] [UNK] [PAD]"), false);
  const WordPieceSpecials& specials = tokenizer.specials();
  EXPECT_EQ(specials.mask, 1);
  EXPECT_EQ(specials.separator, 3);
  EXPECT_EQ(specials.first, 5);
  EXPECT_EQ(specials.unknown, 6);
  EXPECT_EQ(specials.padding, 7);
  std::string special, continuing;
  for (Token token = 0; token < 8; ++token) {
    special += tokenizer.is_special(token) ? '1' : '0';
    continuing += tokenizer.continues(token) ? '1' : '0';
  }
  EXPECT_EQ(special, "01010111");
  EXPECT_EQ(continuing, "00100000");
  EXPECT_EQ(error_of([&] { (void)tokenizer.decode(std::vector<Token>{8}); }), "token: expected below 8, got 8");
}

TEST(WordPiece, VocabTxtIsReadAndWritten) {
  const TemporaryFolder folder;
  std::string text;
  for (const std::string& piece : split(reference_vocabulary)) text += piece + "\n";
  const auto tokenizer = WordPieceTokenizer::read(folder.write("vocab.txt", text), false);
  EXPECT_EQ(tokenizer->vocabulary_text(), text);
  std::string windows;
  for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(WordPieceTokenizer::read(folder.write("windows.txt", windows), false)->vocabulary_text(), text);
}

TEST(WordPiece, ARunKeepsIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  for (const bool cased : {false, true}) {
    const WordPieceTokenizer tokenizer(split(reference_vocabulary), cased);
    save_tokenizer(tokenizer, path);
    const auto loaded = load_word_piece(path);
    EXPECT_EQ(loaded->vocabulary_text(), tokenizer.vocabulary_text());
    EXPECT_EQ(loaded->cased(), cased);
    EXPECT_EQ(loaded->encode("The able"), tokenizer.encode("The able"));
  }
  EXPECT_EQ(error_of([&] { load_word_piece(folder.write("b.json", "{\"kind\": \"byte\"}")); }),
            (folder.path() / "b.json").string() + ": expected a tokenizer of kind word_piece, got byte");
  EXPECT_EQ(error_of([&] {
              load_word_piece(folder.write("c.json", R"({"kind": "word_piece", "cased": true, "pieces": ["a", "a"]})"));
            }),
            (folder.path() / "c.json").string() +
                ", piece 2: expected a piece that is not there yet, got a, which is piece 1");
}

TEST(WordPiece, RefusalsNameFileAndLine) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& contents) {
    const auto path = folder.write("vocab.txt", contents);
    std::string message = error_of([&] { WordPieceTokenizer::read(path, false); });
    EXPECT_TRUE(message.empty() || message.starts_with(path.string())) << message;
    return message.substr(std::min(message.size(), path.string().size()));
  };
  const std::string specials = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n",
                    wanted = "a piece of a word, without spaces, in UTF-8";
  EXPECT_EQ(refusal(specials), "");
  EXPECT_EQ(refusal(specials + "a\n##a\nb\n##a\n"),
            ", line 9: expected a piece that is not there yet, got ##a, which is line 7");
  EXPECT_EQ(refusal(specials + "\na\n"), ", line 6: expected " + wanted + ", got an empty one");
  EXPECT_EQ(refusal("the 0\n" + specials), ", line 1: expected " + wanted + ", got \"the 0\"");
  EXPECT_EQ(refusal(specials + "the\t0\n"), ", line 6: expected " + wanted + ", got \"the 0\"");
  EXPECT_EQ(refusal(specials + "\xc3\n"), ", line 6: expected text in UTF-8, got byte 0xC3 at byte 1 of the line");
  EXPECT_EQ(refusal("[PAD]\n[CLS]\n[SEP]\n"),
            ": expected a vocabulary with [PAD], [UNK], [CLS], [SEP], [MASK], got 3 pieces without [UNK], [MASK]");
  EXPECT_EQ(refusal(""),
            ": expected a vocabulary with [PAD], [UNK], [CLS], [SEP], [MASK], got 0 pieces without [PAD], "
            "[UNK], [CLS], [SEP], [MASK]");
}

// Any damage to a vocabulary, and any text: a tokenizer, or one line that says why not; tokens, and their text.
TEST(WordPiece, SurvivesAnyBytes) {
  const TemporaryFolder folder;
  const WordPieceTokenizer whole(split(reference_vocabulary), false);
  for (std::uint64_t turn = 0; turn < 150; ++turn) {
    std::uint64_t drawn = 0;
    const auto draw = [&](std::uint64_t bound) { return bounded(random_of({turn, drawn++}), bound); };
    std::string vocabulary = whole.vocabulary_text();
    if (turn % 2 == 0) vocabulary.resize(draw(vocabulary.size()));
    for (auto left = draw(3); left > 0 && !vocabulary.empty(); --left)
      vocabulary[draw(vocabulary.size())] = static_cast<char>(draw(256));
    const auto path = folder.write("vocab.txt", vocabulary);
    const std::string message = error_of([&] { WordPieceTokenizer::read(path, turn % 3 == 0); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.empty() || message.starts_with(path.string())) << message;

    std::string bytes, characters;
    for (auto left = draw(40); left > 0; --left) bytes.push_back(static_cast<char>(draw(256)));
    for (auto left = draw(40); left > 0; --left) {
      const auto c = static_cast<char32_t>(draw(turn % 3 == 0 ? 0x110000 : turn % 3 == 1 ? 0x3000 : 0x80));
      if (c < 0xd800 || c > 0xdfff) append_utf8(characters, c);
    }
    error_of([&] { (void)whole.encode(bytes); });
    for (const Token token : whole.encode(characters)) EXPECT_LT(token, whole.vocabulary());
    const std::string decoded = whole.decode(whole.encode(characters));
    EXPECT_EQ(find_non_text(decoded), std::string::npos);
  }
}

}  // namespace
}  // namespace cogwheel::text
