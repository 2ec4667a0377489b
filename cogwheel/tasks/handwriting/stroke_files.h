// Strokes from files: IAM-OnDB (lines of handwriting with transcripts) and QuickDraw (drawings of a word).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

struct StrokeFileOptions {
  // What is longer is left out.
  std::int64_t max_points = 1200, max_characters = 100;
  // The text of a QuickDraw drawing is its word, instead of none.
  bool words_as_text = false;
};

struct StrokeFile {
  std::filesystem::path path;
  std::int64_t bytes;
  std::string sha256;
};

// Sequences that were read and are not used, counted by the reason.
struct UnusedStrokes {
  std::int64_t transcripts_differ = 0;  // lines of a form that has more or fewer lines of text
  std::int64_t no_transcript = 0;
  std::int64_t no_strokes = 0;  // less than two points: there is nothing to predict
  std::int64_t too_long = 0;
  std::int64_t broken = 0;        // lines whose file, or whose form's transcript, is damaged
  std::string first_broken = {};  // what was wrong with the first, in one line

  std::int64_t total() const { return transcripts_differ + no_transcript + no_strokes + too_long + broken; }
  // In one line: "3 of forms with another number of transcripts, 1 too long". Empty: none.
  std::string text() const;
};

struct StrokeSet {
  std::string name;    // for display: the file or folder
  std::string sha256;  // of the files' own hashes, in their order
  std::int64_t bytes = 0;
  std::vector<StrokeFile> files;  // transcripts included
  std::vector<StrokeSequence> sequences;
  // For each sequence what it belongs to: the form that a line was written on, by its name, or what is drawn. A split
  // keeps these together.
  std::vector<std::string> origins;
  UnusedStrokes unused;
};

// A folder of IAM-OnDB or of .ndjson files, wherever below it they lie, or one .ndjson file. What is damaged in
// IAM-OnDB is counted and not used. Throws Error with the file for what cannot be read and for damaged .ndjson, and
// where nothing is left to use.
StrokeSet load_strokes(const std::filesystem::path& path, const StrokeFileOptions& options = {});

// The parts of it. `name` is for messages.
//
// lineStrokes/…/a01-000u-01.xml.
StrokeSequence parse_line_strokes(const std::string& xml, const std::string& name);
// The lines below CSR: of ascii/…/a01-000u.txt, without blank ones.
std::vector<std::string> parse_transcript(const std::string& text, const std::string& name);
// The lines that original/…/strokesu.xml says it holds: a second source of transcripts.
std::vector<std::string> parse_original_transcript(const std::string& xml, const std::string& name);
// One line of an .ndjson file, as raw or simplified.
StrokeSequence parse_quick_draw(const std::string& json, const std::string& name, bool word_as_text);

}  // namespace cogwheel::tasks::handwriting
