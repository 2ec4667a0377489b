// A page of text, tables and figures: one file that opens offline and needs no script. What is not a comparison is
// shown so: the evaluation of a run, an experiment of a lab.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/pages/exhibits.h"

namespace cogwheel::pages {

struct DocumentFact {
  std::string name, value, detail = {};
};

struct DocumentSection {
  std::string title;
  std::string lead = {};
  std::vector<TextTable> tables = {};
  std::vector<Figure> figures = {};
  std::vector<std::pair<std::string, std::string>> remarks = {};  // each a few words, and what they mean
};

// Text is plain, and escaped here.
struct Document {
  std::string title;
  std::string kind;     // "Cogwheel evaluation"
  std::string created;  // ISO 8601
  std::string verdict;  // what a hurried reader should take along, in a sentence or two
  std::vector<DocumentFact> facts = {};
  std::vector<DocumentSection> sections = {};
  std::string command = {};     // that makes the page again
  std::string written_by = {};  // "cogwheel evaluate"
  std::string version = {};     // of Cogwheel
};

std::string document_page(const Document& document);

}  // namespace cogwheel::pages
