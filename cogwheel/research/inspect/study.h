// A question to trained models, and what answers it.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/lab_parameters.h"
#include "cogwheel/core/token.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::runs {
struct NamedPass;
class Task;
}  // namespace cogwheel::runs

namespace cogwheel::tasks::language {
class LanguageModel;
}  // namespace cogwheel::tasks::language

namespace cogwheel::text {
class Tokenizer;
}  // namespace cogwheel::text

namespace cogwheel::inspect {

// Its model is read from the checkpoint once: what is trained meanwhile changes nothing.
struct StudiedRun {
  std::string name;  // as given
  std::filesystem::path checkpoint;
  std::string
      kind;  // runs of one kind are seeds of one row; empty: those whose configurations differ in the seed alone
  runs::RunConfig config;
  std::shared_ptr<tasks::language::LanguageModel> model = {};  // none where the study asks other models
  std::shared_ptr<const text::Tokenizer> tokenizer = {};       // of text; none where the task has none
  std::vector<Token> text = {};                                // where the study reads one
  std::vector<runs::StepReport> history = {};                  // of metrics.jsonl, those with statistics of heads
  std::shared_ptr<const runs::Task> task = {};       // where the study reads what it holds out, and with `pass`
  std::shared_ptr<const runs::NamedPass> pass = {};  // of another model, where the study asks these
};

struct StudyTable {
  std::string file;        // of the CSV, without ".csv"
  pages::TextTable table;  // a number in each cell, "0.5 ± 0.1" where it has an interval, "12 %"
  bool on_page = true;
};

// What a study gives of each run as a number, for claims of experiments: "heads.lambda@2".
struct StudyNumber {
  std::string name, meaning;
  std::string place = {};  // at what it is taken, "layer, from 0" or "n"; empty: once of each run
};

// Its values; NaN where a run has none.
struct NumbersOfRuns {
  std::string name;
  std::optional<double> place = {};
  std::vector<double> values;
};

struct StudyResult {
  std::string answer = {};              // in one sentence
  std::vector<std::string> notes = {};  // where less was done than was asked for: told at once, and on the page
  std::vector<StudyTable> tables = {};
  std::vector<pages::LineChart> charts = {};
  std::vector<pages::Figure> figures = {};
  std::vector<std::pair<std::string, std::string>> remarks = {};  // a few words, and what they mean
  std::vector<NumbersOfRuns> numbers = {};                        // those that the entry declares
};

// Which models a study asks. Any: others than language models by their pass; those of one task it may read itself.
enum class Asked { language_models, any_models, read_by_the_study };

struct StudyEntry {
  std::string name;      // as studies.def has it
  std::string title;     // of the page
  std::string question;  // that it answers
  LabParameters parameters;
  // Throws UsageError for a run that it can ask nothing.
  StudyResult (*run)(const LabParameters& parameters, const std::vector<StudiedRun>& runs);
  bool reads_text = false;  // one for all runs, in the tokens of each
  std::vector<StudyNumber> numbers = {};
  bool reads_held_out = false;  // of the task of each run (held_out.h)
  Asked asks = Asked::language_models;
  std::string size = {};  // the parameter that its time grows in proportion to, where one can be chosen freely
};

// In the order of studies.def.
const std::vector<StudyEntry>& studies();
// Throws UsageError, which begins with `what`, with the nearest names.
const StudyEntry& find_study(std::string_view name, std::string_view what);

// What a mechanism is called where people read: "Cog"; of a hybrid "Gated linear attention × 3 + Softmax".
std::string mechanism_title(const std::string& mechanism);
// Stands between the mechanism of a model and the softmax layers around it, in what a group of runs is called.
inline constexpr const char* between_softmax_layers = " in softmax ";

// A number of a table: enough digits to tell what differs.
std::string study_number(double value);

}  // namespace cogwheel::inspect
