// The base of tasks that an encoder of text learns: its data and its model, and the maps of a row.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/encoders/sentence_data.h"

namespace cogwheel {

class EncoderTask : public Task {
 public:
  EncoderTask(SentenceData data, TaskOptions options) : data_(std::move(data)), options_(std::move(options)) {}

  DataFacts data(const ModelOptions&, const TrainingOptions& training) const override { return facts_of(training); }
  DataFacts facts_of(const TrainingOptions& training) const { return data_.facts(description().item, training); }
  std::vector<RunFile> records() const override { return data_.records(); }
  std::string left_out() const override { return dropped_text(data_.corpus()); }
  std::vector<std::string> notes() const override { return data_.corpus().taken_as; }

 protected:
  // How many rows a part of the evaluation has.
  std::int64_t rows_of(EvaluationPart part, const TrainingOptions& training) const;
  const std::string& piece(std::int64_t token) const { return data_.tokenizer().piece(static_cast<Token>(token)); }
  // The longest row of which a page shows maps.
  static constexpr std::int64_t readable = 32;
  void show_maps(Inspection& inspection, Encoder& model, const EncoderBatch& row) const;

  SentenceData data_;
  TaskOptions options_;
};

// A preset of an encoder that learns a task.
Preset encoder_preset(std::string_view task, std::string_view summary);

}  // namespace cogwheel
