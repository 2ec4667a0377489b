#include "cogwheel/tasks/handwriting/stroke_files.h"

#include <gtest/gtest.h>

#include <random>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "support/temporary_folder.h"
#include "tasks/handwriting/stroke_examples.h"

namespace cogwheel::tasks::handwriting {
namespace {

std::string refusal(const std::filesystem::path& path, const StrokeFileOptions& options = {}) {
  try {
    load_strokes(path, options);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

TEST(LineStrokes, AreReadWithTheirTranscripts) {
  const TemporaryFolder folder;
  folder.write("lineStrokes/a01/a01-000/a01-000u-01.xml", line_xml);
  folder.write("lineStrokes/a01/a01-000/a01-000u-02.xml", line_xml);
  folder.write("ascii/a01/a01-000/a01-000u.txt", transcript);
  folder.write("lineStrokes/b02/b02-000/b02-000z-01.xml", line_xml);
  folder.write("lineStrokes/b02/b02-000/b02-000z-02.xml", line_xml);
  folder.write("original/b02/b02-000/strokesz.xml", original);
  const StrokeSet set = load_strokes(folder.path());
  ASSERT_EQ(set.sequences.size(), 4u);
  const std::vector<StrokePoint> points{{0, 0, false}, {-1, 27, true}, {108.5, -35, true}};
  for (const StrokeSequence& sequence : set.sequences) EXPECT_EQ(sequence.points, points);
  EXPECT_EQ(set.sequences[0].text, "A MOVE to");
  EXPECT_EQ(set.sequences[1].text, "stop Mr. Gaitskell");
  EXPECT_EQ(set.sequences[2].text, "\"A <b>\"");
  EXPECT_EQ(set.origins, (std::vector<std::string>{"a01-000u", "a01-000u", "b02-000z", "b02-000z"}));
  EXPECT_EQ(set.unused.total(), 0);
  EXPECT_EQ(set.unused.text(), "");
  EXPECT_EQ(set.files.size(), 6u);
  EXPECT_EQ(set.files[0].sha256, sha256(transcript));
  EXPECT_EQ(load_strokes(folder.path()).sha256, set.sha256);
  folder.write("ascii/a01/a01-000/a01-000u.txt", transcript + " ");
  EXPECT_NE(load_strokes(folder.path()).sha256, set.sha256);
}

TEST(LineStrokes, AreLeftOutWhereTheyDoNotFit) {
  const TemporaryFolder folder;
  const auto add_form = [&](const std::string& form, int lines, const std::string& text) {
    for (int line = 1; line <= lines; ++line)
      folder.write("lineStrokes/" + form + "-0" + std::to_string(line) + ".xml", line_xml);
    if (!text.empty()) folder.write("ascii/" + form + ".txt", text);
  };
  add_form("a01-000u", 3, transcript);  // of two lines
  EXPECT_EQ(refusal(folder.path()), folder.path().string() +
                                        ": expected strokes to learn from, got none but 3 of forms with another number "
                                        "of transcripts");
  add_form("a02-000u", 2, "");
  add_form("a03-000u", 2, "CSR:\nshort\n" + std::string(101, 'x') + "\n");
  folder.write("lineStrokes/a04-000u-01.xml", "<a><StrokeSet><Stroke/></StrokeSet></a>");
  folder.write("ascii/a04-000u.txt", "CSR:\nnone\n");
  const StrokeSet set = load_strokes(folder.path());
  EXPECT_EQ(set.sequences.size(), 1u);
  EXPECT_EQ(set.unused.text(),
            "3 of forms with another number of transcripts, 2 without transcript, 1 without strokes, 1 too long");
  EXPECT_NE(refusal(folder.path(), {.max_points = 2}).find("2 too long"), std::string::npos);
}

TEST(LineStrokes, BrokenFilesAreLeftOutAndNamed) {
  const TemporaryFolder folder;
  folder.write("lineStrokes/a01-000u-01.xml", line_xml);
  const auto broken = folder.write("lineStrokes/a01-000u-02.xml", line_xml.substr(0, 100));
  folder.write("ascii/a01-000u.txt", "CSR:\none\ntwo\n");
  folder.write("lineStrokes/a02-000u-01.xml", line_xml);
  folder.write("ascii/a02-000u.txt", "OCR:\none\n");
  const StrokeSet set = load_strokes(folder.path());
  ASSERT_EQ(set.sequences.size(), 1u);
  EXPECT_EQ(set.sequences[0].text, "one");
  EXPECT_TRUE(set.unused.text().starts_with("2 broken (" + broken.string() + ": expected XML, got "))
      << set.unused.text();
}

TEST(LineStrokes, BrokenFilesAreNamed) {
  const TemporaryFolder folder;
  const std::string none = folder.path().string() + ": expected strokes to learn from, got none but 1 broken (";
  const auto xml = folder.write("lineStrokes/a01-000u-01.xml", line_xml.substr(0, line_xml.size() / 2));
  const auto text = folder.write("ascii/a01-000u.txt", "CSR:\nline\n");
  EXPECT_TRUE(refusal(folder.path()).starts_with(none + xml.string() + ": expected XML, got "))
      << refusal(folder.path());
  const auto with = [&](const std::string& contents) {
    folder.write("lineStrokes/a01-000u-01.xml", contents);
    return refusal(folder.path());
  };
  EXPECT_TRUE(with("").starts_with(none + xml.string() + ": expected XML, got "));
  EXPECT_EQ(with("<a/>"),
            none + xml.string() + ": expected an element StrokeSet within the first one, got none in <a>)");
  for (const std::string wrong : {"", "1O", "0x1", "1 "})
    EXPECT_EQ(with("<a><StrokeSet><Stroke><Point x=\"1\" y=\"" + wrong + "\"/></Stroke></StrokeSet></a>"),
              none + xml.string() + ": expected a number for y of each Point, got " +
                  (wrong.empty() ? "nothing" : wrong) + ")");
  EXPECT_EQ(with("<a><StrokeSet><Stroke><Point x=\"nan\" y=\"1\"/></Stroke></StrokeSet></a>"),
            none + xml.string() + ": stroke 1, point 1: expected coordinates of at most 1,000,000, got nan)");
  folder.write("ascii/a01-000u.txt", "OCR:\nline\n");
  EXPECT_EQ(with(line_xml), none + text.string() + ": expected a line CSR: before the transcript, got none)");
  folder.write("ascii/a01-000u.txt", "CSR:\nl\xff\n");
  EXPECT_EQ(with(line_xml), none + text.string() + ": expected a transcript in UTF-8, got byte 0xFF at offset 6)");
}

TEST(QuickDraw, IsReadAsDrawnOrWithItsWord) {
  const TemporaryFolder folder;
  const auto path = folder.write("cat.ndjson", drawing + "\r\n\n" + raw_drawing);
  const StrokeSet set = load_strokes(path);
  ASSERT_EQ(set.sequences.size(), 2u);
  const std::vector<StrokePoint> points{{0, 0, false}, {3, 0, false}, {0, 4, true}, {7, 15, true}};
  EXPECT_EQ(set.sequences[0].points, points);
  EXPECT_EQ(set.sequences[0].text, "");
  EXPECT_EQ(set.sequences[1].points[1], (StrokePoint{2.75, 0, true}));
  EXPECT_NE(set.origins[0], set.origins[1]);
  const StrokeSet words = load_strokes(folder.path(), {.words_as_text = true});
  EXPECT_EQ(words.sequences[0].text, "cat");
  EXPECT_EQ(words.sequences[1].text, "dög");
  EXPECT_EQ(load_strokes(path, {.max_characters = 3, .words_as_text = true}).sequences.size(), 2u);
  EXPECT_EQ(load_strokes(path, {.max_points = 3}).unused.text(), "1 too long");
}

TEST(QuickDraw, BrokenLinesAreNamed) {
  const TemporaryFolder folder;
  const std::string place = (folder.path() / "a.ndjson").string() + " line 2";
  const auto with = [&](const std::string& line, bool word = false) {
    return refusal(folder.write("a.ndjson", drawing + "\n" + line), {.words_as_text = word});
  };
  EXPECT_EQ(with("{\"drawing\": [["), place + ": expected a drawing in JSON, got what is none from byte 15 on");
  EXPECT_EQ(with("{\"drawing\": [[[1],[NaN]]]}"),
            place + ": expected a drawing in JSON, got what is none from byte 20 on");
  EXPECT_EQ(with("{\"drawing\": [[[1,2],[1]]]}"), place + ": expected as many x as y in each stroke, got 2 and 1");
  for (const char* other : {"3", "{}", "{\"drawing\": 1}", "{\"drawing\": [[[1]]]}", "{\"drawing\": [[[\"1\"],[2]]]}"})
    EXPECT_EQ(with(other), place + ": expected \"drawing\", a list of strokes [[x, …], [y, …], …], got another form");
  EXPECT_NE(with("{\"drawing\": []}", true).find("and \"word\", got another form"), std::string::npos);
  EXPECT_NE(with("{\"drawing\": [[[1e40],[2]]]}").find("got 1e+40"), std::string::npos);
}

TEST(StrokeFiles, AreOfOneKind) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path() / "none"),
            "strokes: expected a file or folder, got none at " + (folder.path() / "none").string());
  const std::string kinds =
      ": expected IAM-OnDB (lineStrokes/…/a01-000u-01.xml, ascii/…/a01-000u.txt) or .ndjson files, got ";
  EXPECT_EQ(refusal(folder.path()), folder.path().string() + kinds + "a folder with neither");
  folder.write("a01-000u-01.xml", line_xml);
  folder.write("a.ndjson", drawing);
  EXPECT_EQ(refusal(folder.path()), folder.path().string() + kinds + "both");
  EXPECT_EQ(refusal(folder.write("empty.ndjson", "\n")),
            (folder.path() / "empty.ndjson").string() + ": expected strokes to learn from, got none");
}

// Readers either give strokes or throw Error, whatever they are given: truncated, with bytes changed, or nothing but
// random bytes.
TEST(StrokeFiles, SurviveAnything) {
  std::mt19937 draw(1);
  std::int64_t read = 0, refused = 0;
  const auto attempt = [&](const auto& parse, const std::string& text) {
    try {
      parse(text);
      ++read;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("expected"), std::string::npos);
      ++refused;
    }
  };
  const auto attack = [&](const auto& parse, const std::string& good) {
    for (int round = 0; round < 600; ++round) {
      std::string text = good;
      const int kind = round % 3;
      if (kind == 0) text.resize(draw() % (good.size() + 1));
      if (kind == 1)
        for (auto changes = 1 + draw() % 6; changes > 0; --changes)
          text[draw() % text.size()] = draw() % 2 == 0 ? static_cast<char>(draw()) : good[draw() % good.size()];
      if (kind == 2)
        for (char& byte : text) byte = static_cast<char>(draw());
      attempt(parse, text);
    }
  };
  attack([](const std::string& text) { parse_line_strokes(text, "a"); }, line_xml);
  attack([](const std::string& text) { parse_transcript(text, "a"); }, transcript);
  attack([](const std::string& text) { parse_original_transcript(text, "a"); }, original);
  attack([](const std::string& text) { parse_quick_draw(text, "a", true); }, drawing);
  attempt([](const std::string& text) { parse_quick_draw(text, "a", false); }, std::string(100'000, '['));
  std::string deep;
  for (int level = 0; level < 20'000; ++level) deep += "<a>";
  attempt([](const std::string& text) { parse_line_strokes(text, "a"); }, deep);
  EXPECT_GT(read, 200);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
