#include "cogwheel/tasks/encoders/sentence_corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/tasks/encoders/sentence_table.h"
#include "support/error_of.h"
#include "support/gzip.h"
#include "support/real_data.h"
#include "support/temporary_folder.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::encoders {
namespace {

// "first|second|label|line" of each row.
std::vector<std::string> rows_of(const SentenceTable& table) {
  std::vector<std::string> rows;
  for (const SentenceRow& row : table.rows)
    rows.push_back(row.first + "|" + row.second + "|" + row.label + "|" + std::to_string(row.line));
  return rows;
}

class SentenceTableTest : public testing::Test {
 protected:
  std::vector<std::string> read(const std::string& contents, const std::string& name = "a.tsv") {
    return rows_of(read_sentence_table(folder_.write(name, contents)));
  }
  // Without the path.
  std::string refusal(const std::string& contents, const std::string& name = "a.tsv") {
    const auto path = folder_.write(name, contents);
    std::string message = error_of([&] { read_sentence_table(path); });
    EXPECT_TRUE(message.starts_with(path.string())) << message;
    return message.substr(std::min(message.size(), path.string().size()));
  }
  TemporaryFolder folder_;
};
using Rows = std::vector<std::string>;

TEST_F(SentenceTableTest, WithoutAHeaderTheLastColumnIsTheLabel) {
  EXPECT_EQ(read("a film\t1\nno \"film\", at all\t 0 \r\n"), (Rows{"a film||1|1", "no \"film\", at all||0|2"}));
  EXPECT_EQ(read("one\ttwo\tyes\n\tx\tno\n"), (Rows{"one|two|yes|1", "|x|no|2"}));
  EXPECT_EQ(read(""), Rows{});
  const SentenceTable table = read_sentence_table(folder_.write("b.tsv", "a\t1\n\n  \nb\t0\n\n"));
  EXPECT_EQ(rows_of(table), (Rows{"a||1|1", "b||0|4"}));
  EXPECT_EQ(table.blank, 3);
  EXPECT_FALSE(table.two_sentences);
}

TEST_F(SentenceTableTest, AHeaderNamesTheColumnsInAnyOrder) {
  EXPECT_EQ(read("sentence\tlabel\na\t1\n"), (Rows{"a||1|2"}));
  EXPECT_EQ(read("idx\tLabel\tQuestion\tSentence\n7\tyes\twho\the\n"), (Rows{"who|he|yes|2"}));
  EXPECT_EQ(read("premise\thypothesis\tgold_label\tx\na\tb\tc\td\n"), (Rows{"a|b|c|2"}));
  // No column of sentences: text, not a header.
  EXPECT_EQ(read("the label\tlabel\nb\tc\n"), (Rows{"the label||label|1", "b||c|2"}));
}

TEST_F(SentenceTableTest, HeadersOfOtherNamesAreTold) {
  // Names that data sets have; the label may come first.
  EXPECT_EQ(read("review,sentiment\ngood,1\n", "a.csv"), (Rows{"good||1|2"}));
  EXPECT_EQ(read("\xef\xbb\xbfSentiment,Review,id\r\n1,good,7\r\n", "a.csv"), (Rows{"good||1|2"}));
  EXPECT_EQ(read("class\ttitle\tdescription\n1\ta\tb\n"), (Rows{"a|b|1|2"}));
  // Names that nobody knows: what no row has as a label is none, where labels come again.
  const std::string rows = "fine film\tpos\nbad\tneg\nworse\tneg\nbest\tpos\n";
  const SentenceTable named = read_sentence_table(folder_.write("a.tsv", "Satz\tUrteil\n" + rows));
  EXPECT_EQ(named.rows.size(), 4u);
  EXPECT_EQ(named.header_text, "line 1 names its columns: sentences of Satz, labels of Urteil");
  EXPECT_EQ(read_sentence_table(folder_.write("b.tsv", "Satz\tUrteil\nok\tpos\n"), named.header).rows.size(), 1u);
  // A sentence is none, nor is a name where labels of one row are usual, or the only other label.
  EXPECT_EQ(read("It was good.\tmixed\n" + rows).size(), 5u);
  EXPECT_EQ(read("Satz\tUrteil\n" + rows + "so\tso\n").size(), 6u);
  EXPECT_EQ(read("good\tpos\nbad\tneg\nworse\tneg\n").size(), 3u);
  EXPECT_EQ(read(rows).size(), 4u);
}

TEST_F(SentenceTableTest, ToBeReadByAModelLabelsAreNoSentences) {
  const auto sentences = [&](const std::string& contents, std::int64_t in_row, const std::string& name = "a.tsv",
                             const std::vector<std::string>& classes = {"neg", "pos"}) {
    return rows_of(read_sentences(folder_.write(name, contents), {.in_row = in_row, .classes = classes}));
  };
  for (const std::int64_t in_row : {0, 1}) {
    EXPECT_EQ(sentences("good\tpos\nbad\tneg\n", in_row), (Rows{"good||pos|1", "bad||neg|2"}));
    EXPECT_EQ(sentences("good\nbad\n", in_row), (Rows{"good|||1", "bad|||2"}));
    EXPECT_EQ(sentences("sentence\tlabel\ngood\tpos\n", in_row), (Rows{"good||pos|2"}));
    EXPECT_EQ(sentences("text\ngood\n", in_row), (Rows{"good|||2"}));
    EXPECT_EQ(sentences("Satz,Urteil\n\"so, so\",neg\n", in_row, "a.csv"), (Rows{"so, so||neg|2"}));
  }
  // One sentence, whatever the label is called.
  EXPECT_EQ(sentences("good\t1\nbad\t\n", 1), (Rows{"good||1|1", "bad|||2"}));
  EXPECT_EQ(sentences("good\tfilm\n", 0), (Rows{"good|film||1"}));
  EXPECT_EQ(sentences("a\tb\n", 2), (Rows{"a|b||1"}));
  EXPECT_EQ(sentences("a\tb\tpos\n", 2), (Rows{"a|b|pos|1"}));
  EXPECT_EQ(sentences("a\tb\tpos\n", 0), (Rows{"a|b|pos|1"}));
  EXPECT_EQ(sentences("label,premise,hypothesis\npos,a,b\n", 2, "a.csv"), (Rows{"a|b|pos|2"}));
  // Plain text: every line, and a tab between two sentences where the model knows two.
  EXPECT_EQ(sentences("a\tpos\n\nb\n", 1, "a.txt"), (Rows{"a\tpos|||1", "|||2", "b|||3"}));
  EXPECT_EQ(sentences("a\tb\n", 2, "a.txt"), (Rows{"a|b||1"}));
  EXPECT_EQ(sentences("a\tb\n", 0, "a.txt"), (Rows{"a|b||1"}));
  const auto refusal_of = [&](const std::string& contents, std::int64_t in_row) {
    const auto path = folder_.write("a.tsv", contents);
    return error_of([&] { read_sentences(path, {.in_row = in_row}); }).substr(path.string().size());
  };
  EXPECT_EQ(
      refusal_of("a\tb\tpos\n", 1),
      ", line 1: expected one sentence, as the model learned, and perhaps a label, with tabs between, got 3 fields");
  EXPECT_EQ(
      refusal_of("a\n", 2),
      ", line 1: expected two sentences, as the model learned, and perhaps a label, with tabs between, got 1 field");
  EXPECT_EQ(refusal_of("premise\thypothesis\na\tb\n", 1),
            ", line 1: expected one column of sentences, as the model learned, got two");
  EXPECT_EQ(refusal_of("a\tb\tc\td\n", 0),
            ", line 1: expected a sentence or two and perhaps a label, with tabs between, got 4 fields");
}

TEST_F(SentenceTableTest, CommasMayBeQuoted) {
  const std::string contents = "label,text\n1,\"no, \"\"not\"\"\nhere\"\n0, plain \n";
  EXPECT_EQ(read(contents, "a.csv"), (Rows{"no, \"not\"\nhere||1|2", " plain ||0|4"}));
  gzipped(contents, folder_.path() / "b.CSV.gz");
  EXPECT_EQ(rows_of(read_sentence_table(folder_.path() / "b.CSV.gz")), read(contents, "a.csv"));
  EXPECT_EQ(read("\"\",\"\",\"x\"\n", "a.csv"), (Rows{"||x|1"}));
}

TEST_F(SentenceTableTest, RefusalsNameFileAndLine) {
  EXPECT_EQ(refusal("a\t1\nb\n"), ", line 2: expected 2 fields with tabs between, as before, got 1");
  EXPECT_EQ(refusal("a\t1\nb\tc\t1\n"), ", line 2: expected 2 fields with tabs between, as before, got 3");
  EXPECT_EQ(refusal("a\t1\nb\t \n"), ", line 2: expected a label, got nothing");
  EXPECT_EQ(refusal("one sentence\n"),
            ", line 1: expected a sentence or two and a label, with tabs between, or a header that names them, got 1 "
            "field");
  EXPECT_EQ(refusal("a\tb\tc\td\n"),
            ", line 1: expected a sentence or two and a label, with tabs between, or a header that names them, got 4 "
            "fields");
  EXPECT_EQ(refusal("a\t1\n\xff\t1\n"), ", line 2: expected text in UTF-8, got byte 0xFF at byte 1 of the line");
  EXPECT_EQ(refusal("a,1\n\"b,1\nc,1\n", "a.csv"),
            ", line 2: expected quotes that are closed, got the end of the file");
  EXPECT_EQ(refusal("a,1\nb \"c\",1\n", "a.csv"), ", line 2: expected quotes around a whole field, got one within b ");
  EXPECT_EQ(refusal("a,1\n\"b\"c,1\n", "a.csv"), ", line 2: expected a comma after a quoted field, got c");
}

// Any bytes and any damage: a table whose rows have labels, or one line that says why not.
TEST_F(SentenceTableTest, SurvivesAnyBytes) {
  const std::string whole = "sentence,label\n\"a, b\"\"c\"\"\",1\nd,0\n\"e\nf\",1\n";
  for (std::uint64_t turn = 0; turn < 200; ++turn) {
    std::uint64_t drawn = 0;
    const auto draw = [&](std::uint64_t bound) { return bounded(random_of({turn, drawn++}), bound); };
    std::string bytes = turn % 3 == 0 ? "" : whole;
    if (turn % 3 == 0)
      for (auto left = draw(40); left > 0; --left) bytes.push_back("a1\t\n\r,\"\x80"[draw(8)]);
    if (turn % 3 == 1) bytes.resize(draw(bytes.size()));
    if (turn % 3 == 2) bytes[draw(bytes.size())] = static_cast<char>(draw(256));
    const auto path = folder_.write(turn % 2 == 0 ? "bytes.csv" : "bytes.tsv", bytes);
    const std::string message = error_of([&] {
      for (const SentenceRow& row : read_sentence_table(path).rows) EXPECT_FALSE(row.label.empty()) << bytes;
    });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.empty() || message.starts_with(path.string())) << message;
  }
}

class SentenceCorpusTest : public testing::Test {
 protected:
  static std::string rows(int count) {
    std::string text;
    for (int row = 0; row < count; ++row)
      text += "sentence " + std::to_string(100 + row) + (row % 3 == 0 ? " is good\tyes\n" : " is bad\tno\n");
    return text;
  }
  TemporaryFolder folder_;
};

TEST_F(SentenceCorpusTest, HoldsOutATenthAndSortsClasses) {
  const SentenceCorpus corpus = load_sentence_corpus({.training = folder_.write("a.tsv", rows(50)), .vocabulary = 120});
  EXPECT_EQ(corpus.name, "a.tsv");
  EXPECT_EQ(corpus.classes, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(corpus.training.size(), 45);
  ASSERT_EQ(corpus.held_out.size(), 5);
  const auto good = std::count(corpus.held_out.labels.begin(), corpus.held_out.labels.end(), 1);
  EXPECT_TRUE(good == 1 || good == 2) << good;
  for (std::int64_t row = 0; row < 5; ++row) {
    const std::string& text = corpus.held_out.texts[static_cast<std::size_t>(row)];
    EXPECT_EQ(corpus.tokenizer->decode(corpus.held_out.tokens.source(row)), text);
    EXPECT_EQ(std::to_string(100 + corpus.held_out.tokens.line(row)), text.substr(9, 3));
    EXPECT_EQ(corpus.held_out.labels[static_cast<std::size_t>(row)], text.ends_with("good") ? 1 : 0);
  }
  EXPECT_EQ(dropped_text(corpus), "");
  EXPECT_EQ(corpus.files.size(), 1u);
}

// Labels that alternate or are sorted, with white space and letter case that differ between copies.
TEST_F(SentenceCorpusTest, TheHeldOutTenthIsDrawnByWordsFromEachClass) {
  for (const bool sorted : {false, true}) {
    std::string text;
    for (int row = 0; row < 2000; ++row)
      text += "row " + std::to_string(row) + ((sorted ? row < 1000 : row % 2 == 0) ? "\ta\n" : "\tb\n");
    for (int row = 0; row < 2000; ++row)
      text += " Row\xc2\xa0 " + std::to_string(row) + ((sorted ? row < 1000 : row % 2 == 0) ? "\ta\n" : " \tb\n");
    const SentenceCorpus corpus =
        load_sentence_corpus({.training = folder_.write("a.tsv", text), .vocabulary = 100, .longest = 12});
    ASSERT_EQ(corpus.held_out.size(), 400);
    EXPECT_EQ(std::count(corpus.held_out.labels.begin(), corpus.held_out.labels.end(), 0), 200);
    std::set<std::string> trained;
    for (std::int64_t row = 0; row < corpus.training.size(); ++row) trained.insert(corpus.training.tokens.content(row));
    for (std::int64_t row = 0; row < corpus.held_out.size(); ++row)
      EXPECT_FALSE(trained.contains(corpus.held_out.tokens.content(row)));
    // The same rows where words are learned.
    const SentenceCorpus words =
        load_sentence_corpus({.training = folder_.path() / "a.tsv", .labels = false, .vocabulary = 100, .longest = 12});
    ASSERT_EQ(words.held_out.size(), 400);
    for (std::int64_t row = 0; row < 400; ++row)
      EXPECT_EQ(words.held_out.tokens.line(row), corpus.held_out.tokens.line(row));
    EXPECT_EQ(words.sha256, corpus.sha256);
  }
}

TEST_F(SentenceCorpusTest, AClassOfOneRowIsTrainedOnAndSaid) {
  const SentenceCorpus corpus =
      load_sentence_corpus({.training = folder_.write("a.tsv", "so so\tmixed\n" + rows(30)), .vocabulary = 60});
  EXPECT_EQ(corpus.classes, (std::vector<std::string>{"mixed", "no", "yes"}));
  EXPECT_EQ(std::count(corpus.training.labels.begin(), corpus.training.labels.end(), 0), 1);
  EXPECT_EQ(corpus.taken_as, (std::vector<std::string>{"a.tsv: classes of one row: mixed (line 1)"}));
  const SentenceCorpus named = load_sentence_corpus({.training = folder_.write("a.csv", "review,sentiment\na,1\nb,0\n"),
                                                     .held_out = folder_.write("b.csv", "review,sentiment\nc,1\n"),
                                                     .vocabulary = 60});
  EXPECT_EQ(named.classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(named.taken_as[0], "a.csv: line 1 names its columns: sentences of review, labels of sentiment");
  EXPECT_EQ(named.held_out.size(), 1);
}

TEST_F(SentenceCorpusTest, LabelsAreThoseOfTheModelByName) {
  SentenceOptions options{
      .training = folder_.write("a.tsv", rows(30)), .vocabulary = 60, .classes = {"yes", "or", "no"}};
  const SentenceCorpus corpus = load_sentence_corpus(options);
  EXPECT_EQ(corpus.classes, options.classes);
  for (std::int64_t row = 0; row < corpus.training.size(); ++row)
    EXPECT_EQ(corpus.training.labels[static_cast<std::size_t>(row)],
              corpus.training.texts[static_cast<std::size_t>(row)].ends_with("good") ? 0 : 2);
  options.held_out = folder_.write("b.tsv", "x\tor\n");
  EXPECT_EQ(load_sentence_corpus(options).held_out.labels, (std::vector<std::int64_t>{1}));
  options.classes = {"good", "bad"};
  EXPECT_EQ(error_of([&] { load_sentence_corpus(options); }),
            options.training.string() + ": labels: expected classes of the model: good, bad, got no");
}

TEST_F(SentenceCorpusTest, DropsCutsAndCounts) {
  // A blank line, and a zero-width space.
  const std::string text = rows(30) + "\n\xe2\x80\x8b\tno\n";
  const SentenceCorpus corpus =
      load_sentence_corpus({.training = folder_.write("a.tsv", text), .vocabulary = 60, .longest = 5});
  EXPECT_EQ(corpus.training.size(), 27);
  EXPECT_EQ(dropped_text(corpus), "sentences: 2 empty and dropped, 27 cut to 5 tokens");
  for (std::int64_t row = 0; row < corpus.training.size(); ++row) EXPECT_EQ(corpus.training.length(row), 5);
}

TEST_F(SentenceCorpusTest, PairsLoseTheEndOfTheLongerSentence) {
  const text::WordPieceTokenizer tokenizer({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"}, false);
  const EncodedRow row = encode_row(tokenizer, "a b a b a", "b a", 8);
  EXPECT_TRUE(row.cut);
  EXPECT_EQ(row.first, (std::vector<Token>{5, 6, 5}));
  EXPECT_EQ(row.second, (std::vector<Token>{6, 5}));
  EXPECT_FALSE(encode_row(tokenizer, "a b a b a", "", 7).cut);
  EXPECT_TRUE(encode_row(tokenizer, "a b a b a b", "", 7).cut);
  SentenceRows rows;
  rows.tokens.add(row.first, row.second, 0);
  rows.tokens.add(row.first, {}, 1);
  EXPECT_EQ(rows.length(0), 8);
  EXPECT_EQ(rows.length(1), 5);
}

TEST_F(SentenceCorpusTest, PlainTextLosesNothing) {
  std::string text = "un able able un able\n\n", vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\nable\n";
  for (int line = 0; line < 12; ++line) text += "able unable unable\n";
  text += "nothing known\n";
  const SentenceCorpus corpus = load_sentence_corpus({.training = folder_.write("a.txt", text),
                                                      .held_out = folder_.write("b.txt", "able\n"),
                                                      .labels = false,
                                                      .vocab = folder_.write("vocab.txt", vocabulary),
                                                      .longest = 6});
  EXPECT_TRUE(corpus.classes.empty());
  EXPECT_TRUE(corpus.training.labels.empty());
  std::vector<std::string> first;
  for (std::int64_t row = 0; row < 4; ++row)
    first.push_back(corpus.tokenizer->decode(corpus.training.tokens.source(row)));
  // Four tokens a row, and no word in two.
  EXPECT_EQ(first, (std::vector<std::string>{"un able able un", "able", "able unable", "unable"}));
  EXPECT_EQ(corpus.training.size(), 26);
  EXPECT_EQ(corpus.training.cut, 13);
  EXPECT_EQ(corpus.training.tokens.empty, 2);  // a blank line, and one without a known word
  // Of a table, only the sentences.
  const SentenceCorpus table = load_sentence_corpus(
      {.training = folder_.write("a.tsv", rows(20)), .labels = false, .vocabulary = 60, .longest = 20});
  const std::string decoded = table.tokenizer->decode(table.training.tokens.source(0));
  EXPECT_EQ(decoded.substr(0, 12), "sentence " + std::to_string(100 + table.training.tokens.line(0)));
}

TEST_F(SentenceCorpusTest, Refusals) {
  const auto good = folder_.write("a.tsv", rows(20));
  const std::string path = good.string(), other = (folder_.path() / "b.tsv").string();
  EXPECT_EQ(usage_error_of([] { load_sentence_corpus({}); }), "sentences: expected a file to learn from, got none");
  EXPECT_EQ(usage_error_of([&] { load_sentence_corpus({.training = good, .longest = 3}); }),
            "longest row: expected at least 4, got 3");
  EXPECT_EQ(error_of([&] { load_sentence_corpus({.training = folder_.write("b.tsv", rows(9))}); }),
            other + ": expected 10 sentences at least, of which a tenth is held out, got 9");
  EXPECT_EQ(error_of([&] {
              load_sentence_corpus({.training = good, .held_out = folder_.write("b.tsv", "x\tno\n\ny\t3\n")});
            }),
            other + ", line 3: expected a label of a.tsv: no, yes, got 3");
  EXPECT_EQ(
      error_of([&] { load_sentence_corpus({.training = good, .held_out = folder_.write("b.tsv", "x\ty\tno\n")}); }),
      other + ": expected one sentence in a row, as " + path + " has, got two");
  EXPECT_EQ(error_of([&] { load_sentence_corpus({.training = folder_.write("b.tsv", "a\t1\n"), .held_out = good}); }),
            other + ": expected rows with two labels at least, got only 1");
  EXPECT_EQ(error_of([&] { load_sentence_corpus({.training = good, .held_out = folder_.write("b.tsv", "\t\n \n")}); }),
            other + ": expected sentences to learn from, got 2 empty");
  std::string many;
  for (int row = 0; row < 1101; ++row) many += "a\t" + std::to_string(row) + "\n";
  EXPECT_EQ(error_of([&] { load_sentence_corpus({.training = folder_.write("b.tsv", many), .held_out = good}); }),
            other + ": expected 1000 different labels at most, got 1101");
}

TEST(SentenceCorpus, Sst2) {
  const auto training = real_data("sst2/train.tsv"), held_out = real_data("sst2/dev.tsv");
  if (training.empty() || held_out.empty()) GTEST_SKIP() << "no sst2 among the shared data";
  const SentenceCorpus corpus = load_sentence_corpus({.training = training, .held_out = held_out, .longest = 64});
  EXPECT_EQ(corpus.classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(corpus.training.size(), 6920);
  EXPECT_EQ(corpus.held_out.size(), 872);
  EXPECT_EQ(corpus.tokenizer->vocabulary(), 8000);
}

}  // namespace
}  // namespace cogwheel::tasks::encoders
