// What many experiments found, a line for each claim.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::reproduce {

struct IndexLine {
  std::string claim;
  bool ours = false;                     // a bound, or an expectation, of our own, and not the source's
  std::string expected, found, verdict;  // verdict: "agrees", "contradicts", "cannot tell"
};

struct IndexedExperiment {
  std::string name;    // "s1/convergence"
  std::string source;  // "S1, Table 4", or the section
  std::string question;
  std::string answer;
  std::string created;
  double seconds = 0;
  std::vector<IndexLine> lines = {};  // of what somebody expects
  std::string problem = {};           // why there is no result
};

// Of the results.json that `cogwheel reproduce` wrote, of either kind. Throws Error that names `what`.
IndexedExperiment parse_indexed(std::string_view json, std::string_view what);

struct IndexSummary {
  std::string command, created, version;
  std::vector<IndexedExperiment> experiments;
};

// "Of 40 claims in 13 experiments, 5 of them our own: 3 contradicted, 35 agree, 2 cannot be told."
std::string index_sentence(const IndexSummary& index);
// What disagrees comes first.
std::string index_page(const IndexSummary& index);
std::string index_markdown(const IndexSummary& index);

}  // namespace cogwheel::reproduce
