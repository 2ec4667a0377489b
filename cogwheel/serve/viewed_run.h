// A run that is looked at: its model and tokenizer as they were when the viewer began.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::tasks::language {
class LanguageModel;
}  // namespace cogwheel::tasks::language

namespace cogwheel::text {
class Tokenizer;
}  // namespace cogwheel::text

namespace cogwheel::serve {

// A text as tokens.
struct ViewedText {
  std::vector<Token> tokens;
  std::vector<std::string> pieces;  // what each token says, in UTF-8
};

class ViewedRun {
 public:
  // The folder of a run, or a checkpoint file in it. Throws Error where it is neither, the run trains no language model
  // or keeps no tokenizer, or the checkpoint changes while it is read.
  static ViewedRun load(const std::filesystem::path& path);

  // As readers tell runs apart: the folder's name, and the file's where it was named.
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& sha256() const { return sha256_; }  // of the checkpoint that was loaded
  const std::string& mechanism() const { return mechanism_; }
  tasks::language::LanguageModel& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

  // Empty, or a line that says that the checkpoint on disk is another one by now.
  std::string change_on_disk();

  // Throws UsageError that begins with `what` where the text is no UTF-8, has what the tokenizer does not know, no
  // token, or more than the model's context.
  ViewedText read(std::string_view text, std::string_view what) const;
  // The token that a word is. Throws UsageError that lists the tokens where it is several.
  Token one_token(std::string_view word, std::string_view what) const;
  std::string piece(Token token) const;
  // What the run's own page shows, to begin with; may be empty.
  std::string example() const;

 private:
  struct FileState {
    std::filesystem::file_time_type time;
    std::uintmax_t bytes = 0;
    bool operator==(const FileState&) const = default;
  };
  static FileState state_of(const std::filesystem::path& file);

  std::string name_, sha256_, mechanism_;
  std::filesystem::path folder_, checkpoint_;
  FileState loaded_, checked_;
  std::string change_;
  std::shared_ptr<tasks::language::LanguageModel> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

// Throws Error where two runs do not read texts as the same tokens.
void expect_same_tokens(const ViewedRun& first, const ViewedRun& second);

}  // namespace cogwheel::serve
