// The experiments that come with Cogwheel, by name: configurations to train from, and arguments of the lecture to
// reproduce, in folders by source.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel::cli {

struct Experiment {
  std::string name;     // of the file; in a folder, s2/hopfield
  std::string summary;  // the first comment of the file
  std::filesystem::path path;
  // What the comment "# needs: …" lists and is not a file or folder here: data, weights, a GPU.
  std::vector<std::string> needs = {};
};

// What an experiment for `reproduce` says of itself.
struct ReproductionFacts {
  std::vector<std::string> items = {};  // of the source that it answers, "S1-45"
  double minutes = 0;                   // that it takes on two cores at most; 0: it does not say
};
// Throws UsageError where the file is no TOML.
ReproductionFacts facts_of(const Experiment& experiment);

// Configurations for `train`, sorted by name.
std::vector<Experiment> experiments();
// What `reproduce` runs, sorted by name.
std::vector<Experiment> reproductions();

// The path of a file if it exists, else of the experiment of that name. Throws UsageError with the nearest names.
std::filesystem::path find_config(const std::string& file_or_name);

// Whether a name is that of a user's own file.
inline bool is_experiment_file(const std::string& name) { return name.ends_with(".toml"); }
// Of a file, "s2/mine" by its folder. Throws UsageError with the nearest names.
Experiment find_reproduction(const std::string& name);

}  // namespace cogwheel::cli
