// An experiment that computes: which lab of which source, with which parameters, and what came out, as a page and as
// JSON.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/parallel.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/reproduce/reproduction_request.h"
#include "cogwheel/research/reproduce/source_name.h"

namespace cogwheel::reproduce {

// experiments/<source>/<name>.toml.
struct LabExperiment {
  std::string name;                    // "s2/hopfield"
  const SourceName* source = nullptr;  // by the folder
  std::string section;                 // of the source: "Dimensionality Limitations"
  std::vector<std::string> items;      // of docs/sources.md: "S2-13"
  const labs::LabEntry* lab = nullptr;
  LabParameters parameters;  // of the file, where it gives them
  double minutes = 0;        // that the file declares for two cores at most; 0: it does not say
};

// lab = "name", section = "…", items = ["S2-13"], and parameters in [parameters]. Throws UsageError that begins with
// `what` for other keys, for a lab that is none, and for what LabParameters::set refuses.
LabExperiment parse_lab_experiment(std::string_view toml, const std::string& name, const std::string& what);

// The parameters of a lab that --seeds and --steps set, where it has them.
inline constexpr const char *seeds_parameter = "seeds", *steps_parameter = "steps";

// Applies what a request says of a lab, its seeds, its steps and "key=value" of --set, and checks that all parameters
// fit each other. Throws UsageError for what the lab does not have.
void set_parameters(LabExperiment& experiment, const ReproductionRequest& request);

// Runs the lab, and decides what its findings tell.
labs::LabResult run_lab(const LabExperiment& experiment, const labs::LabHost& host);

struct Reproduction {
  LabExperiment experiment;
  labs::LabResult result;
  std::string command;  // that makes it again
  std::string created;  // ISO 8601
  std::string version;  // of Cogwheel
  std::string cpu;
  double seconds = 0;
};

// "7 of 8 numbers agree with the lecture." and, where not all do, which do not and which cannot be told; bounds of our
// own are counted apart.
std::string agreement(const labs::LabResult& result, const SourceName& source);
// The numbers beside each other, and what those of several draws tell, by tests of all of them together.
pages::TextTable findings_table(const labs::LabResult& result, const SourceName& source);

std::string reproduction_page(const Reproduction& reproduction);
std::string reproduction_json(const Reproduction& reproduction);

// The marker of a folder that holds one, and the files in it.
inline constexpr std::string_view reproduction_kind = "reproduction";
inline constexpr const char *reproduction_page_file = "report.html", *reproduction_json_file = "results.json";

}  // namespace cogwheel::reproduce
