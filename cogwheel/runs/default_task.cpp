#include "cogwheel/runs/default_task.h"

namespace cogwheel::runs {

TaskDescription describe_language_modelling(const std::string& item) {
  return {.name = TaskOptions{}.name,
          .summary = "predict the next token of a text",
          .item = item,
          .data = {},
          .does_better = "predicts unseen text better",
          .do_better = "predict unseen text better",
          .sampling = ", same random numbers, temperature 0.8",
          .measures = {
              {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per " + item}}};
}

std::string DataFacts::item() const { return item_of(tokenizer); }

std::string item_of(std::string_view tokenizer) {
  return tokenizer == "bpe" || tokenizer == "sentencepiece" ? "token" : std::string(tokenizer);
}

}  // namespace cogwheel::runs
