// The base of tasks that an encoder of text learns: its data and its model, and the maps of a row.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/encoders/sentence_data.h"

namespace cogwheel::tasks::encoders {

class EncoderTask : public runs::Task {
 public:
  EncoderTask(SentenceData data, runs::TaskOptions options) : data_(std::move(data)), options_(std::move(options)) {}

  runs::DataFacts data(const runs::ModelOptions&, const runs::TrainingOptions& training) const override {
    return facts_of(training);
  }
  runs::DataFacts facts_of(const runs::TrainingOptions& training) const {
    return data_.facts(description().item, training);
  }
  std::vector<runs::RunFile> records() const override { return data_.records(); }
  std::string left_out() const override { return dropped_text(data_.corpus()); }
  std::vector<std::string> notes() const override { return data_.corpus().taken_as; }

 protected:
  // How many rows a part of the evaluation has.
  std::int64_t rows_of(runs::EvaluationPart part, const runs::TrainingOptions& training) const;
  const std::string& piece(std::int64_t token) const { return data_.tokenizer().piece(static_cast<Token>(token)); }
  // The longest row of which a page shows maps.
  static constexpr std::int64_t readable = 32;
  void show_maps(runs::Inspection& inspection, Encoder& model, const EncoderBatch& row) const;

  SentenceData data_;
  runs::TaskOptions options_;
};

// A preset of an encoder that learns a task.
runs::Preset encoder_preset(std::string_view task, std::string_view summary);

}  // namespace cogwheel::tasks::encoders
