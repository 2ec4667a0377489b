#include "cogwheel/serve/viewed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/text/text_tokens.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::serve {
namespace {

namespace fs = std::filesystem;

std::string quoted_list(const std::vector<std::string>& pieces) {
  constexpr std::size_t most = 8;
  std::string list;
  for (std::size_t index = 0; index < std::min(most, pieces.size()); ++index)
    list += fmt::format("{}\"{}\"", index == 0 ? "" : ", ", pieces[index]);
  return list + (pieces.size() > most ? ", …" : "");
}

}  // namespace

ViewedRun::FileState ViewedRun::state_of(const fs::path& file) {
  std::error_code problem;
  FileState state{.time = fs::last_write_time(file, problem)};
  const std::uintmax_t bytes = fs::file_size(file, problem);
  state.bytes = problem ? 0 : bytes;
  return state;
}

ViewedRun ViewedRun::load(const fs::path& path) {
  ViewedRun run;
  const auto [folder, checkpoint] = runs::find_checkpoint(path);
  run.folder_ = folder.path();
  run.checkpoint_ = checkpoint;
  run.name_ = runs::name_of_run(path);
  const runs::RunConfig config = runs::load_config(folder.config_path());
  if (config.model.get_if<tasks::language::LanguageModelOptions>() == nullptr)
    throw Error(
        expected_got(path.string(), "a run that trains a language model", "one of the task " + config.task.name));
  if (std::error_code problem; !fs::exists(folder.tokenizer_path(), problem))
    throw Error(expected_got(path.string(), "a run that reads text",
                             fmt::format("one of the task {}, without {}", config.task.name, runs::tokenizer_file)));
  run.loaded_ = run.checked_ = state_of(run.checkpoint_);
  run.sha256_ = sha256_of_file(run.checkpoint_);
  run.model_ = tasks::language::load_language_model(folder, run.checkpoint_);
  if (state_of(run.checkpoint_) != run.loaded_)
    throw Error(expected_got(path.string(), "a checkpoint that stays as it is", "one that changed meanwhile"));
  run.tokenizer_ = text::load_tokenizer(folder.tokenizer_path());
  run.mechanism_ = (*run.model_)->options().mechanism;
  return run;
}

std::string ViewedRun::change_on_disk() {
  const FileState now = state_of(checkpoint_);
  if (now == checked_) return change_;
  checked_ = now;
  change_.clear();
  if (now == loaded_) return change_;
  std::string hash;
  try {
    hash = sha256_of_file(checkpoint_);
  } catch (const Error&) {
    hash.clear();  // gone, or between two names
  }
  if (hash != sha256_)
    change_ = expected_got(name_, fmt::format("the checkpoint that was loaded ({})", sha256_.substr(0, 12)),
                           hash.empty() ? "none on disk by now" : fmt::format("{} on disk by now", hash.substr(0, 12)));
  return change_;
}

ViewedText ViewedRun::read(std::string_view text, std::string_view what) const {
  constexpr std::size_t most_bytes = std::size_t{1} << 18;
  if (text.size() > most_bytes)
    throw UsageError(expected_got(what, fmt::format("at most {} bytes", most_bytes), std::to_string(text.size())));
  ViewedText read;
  read.tokens = text::tokens_of(*tokenizer_, text, what);
  if (std::ssize(read.tokens) == (text::begins_texts(*tokenizer_) ? 1 : 0))
    throw UsageError(expected_got(what, "a token at least", text.empty() ? "" : "none"));
  const std::int64_t context = (*model_)->options().context;
  if (const auto tokens = static_cast<std::int64_t>(read.tokens.size()); tokens > context)
    throw UsageError(expected_got(what, fmt::format("at most {} tokens, the context of {}", context, name_),
                                  std::to_string(tokens)));
  for (const Token token : read.tokens) read.pieces.push_back(piece(token));
  return read;
}

Token ViewedRun::one_token(std::string_view word, std::string_view what) const {
  ViewedText read = this->read(word, what);
  if (text::begins_texts(*tokenizer_)) {
    read.tokens.erase(read.tokens.begin());
    read.pieces.erase(read.pieces.begin());
  }
  if (read.tokens.size() != 1)
    throw UsageError(
        expected_got(what, "one token", fmt::format("{}: {}", read.tokens.size(), quoted_list(read.pieces))));
  return read.tokens.front();
}

std::string ViewedRun::piece(Token token) const { return text::token_piece(*tokenizer_, token); }

std::string ViewedRun::example() const {
  try {
    const auto json = nlohmann::json::parse(read_file(folder_ / "inspection.json"));
    std::vector<std::string> tokens = json.at("tokens");
    std::string text;
    if (text::begins_texts(*tokenizer_)) {
      // From "<s>" on, to the "." that fills the row of a batch.
      while (tokens.size() > 2 && tokens.back() == ".") tokens.pop_back();
      for (std::size_t index = 1; index < tokens.size(); ++index) text += (index > 1 ? " " : "") + tokens[index];
    } else {
      for (const std::string& token : tokens) text += token;
    }
    read(text, "example");
    return text;
  } catch (const std::exception&) {
    return "";  // no such file, or of another run
  }
}

void expect_same_tokens(const ViewedRun& first, const ViewedRun& second) {
  const auto named = [](const ViewedRun& run) {
    return fmt::format("{}, {} tokens", run.tokenizer().kind(), run.tokenizer().vocabulary());
  };
  if (first.tokenizer().to_json() == second.tokenizer().to_json()) return;
  const bool alike = named(first) == named(second);
  throw Error(expected_got(second.name(), fmt::format("the tokenizer of {} ({})", first.name(), named(first)),
                           alike ? "one with other tokens" : named(second)));
}

}  // namespace cogwheel::serve
