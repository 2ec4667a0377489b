#include "cogwheel/text/sentencepiece/sentencepiece_module.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cogwheel::text {
namespace {

class Lines final : public sentencepiece::SentenceIterator {
 public:
  Lines(const char* const* lines, const std::size_t* bytes, std::size_t count)
      : lines_(lines), bytes_(bytes), count_(count) {
    read();
  }
  bool done() const override { return next_ >= count_; }
  void Next() override {
    ++next_;
    read();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void read() {
    if (!done()) line_.assign(lines_[next_], bytes_[next_]);
  }

  const char* const* lines_;
  const std::size_t* bytes_;
  std::size_t count_, next_ = 0;
  std::string line_;
};

void give(TextSink sink, std::string_view text) { sink.take(sink.to, text.data(), text.size()); }

bool train(const char* const* lines, const std::size_t* bytes, std::size_t count, const TrainingOption* options,
           std::size_t option_count, TextSink result) {
  try {
    Lines iterator(lines, bytes, count);
    std::unordered_map<std::string, std::string> named{{"minloglevel", "3"}};
    for (std::size_t option = 0; option < option_count; ++option) named[options[option].name] = options[option].value;
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(named, &iterator, &model);
    give(result, status.ok() ? std::string_view(model) : std::string_view(status.message()));
    return status.ok();
  } catch (const std::exception& problem) {
    give(result, problem.what());
    return false;
  }
}

void* load(const char* model, std::size_t bytes, TextSink result) {
  try {
    auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
    const auto status = processor->LoadFromSerializedProto(absl::string_view(model, bytes));
    if (status.ok()) return processor.release();
    give(result, status.message());
  } catch (const std::exception& problem) {
    give(result, problem.what());
  }
  return nullptr;
}

const sentencepiece::SentencePieceProcessor& of(const void* model) {
  return *static_cast<const sentencepiece::SentencePieceProcessor*>(model);
}

void unload(void* model) { delete static_cast<sentencepiece::SentencePieceProcessor*>(model); }

int vocabulary(const void* model) { return of(model).GetPieceSize(); }

SpecialPieces special(const void* model) {
  return {of(model).pad_id(), of(model).unk_id(), of(model).bos_id(), of(model).eos_id()};
}

PieceKind kind(const void* model, int token) {
  if (of(model).IsUnknown(token)) return PieceKind::unknown;
  if (of(model).IsControl(token)) return PieceKind::control;
  if (of(model).IsByte(token)) return PieceKind::byte;
  return of(model).IsUnused(token) ? PieceKind::unused : PieceKind::text;
}

void piece(const void* model, int token, TextSink result) { give(result, of(model).IdToPiece(token)); }

void encode(const void* model, const char* text, std::size_t bytes, TokenSink result) {
  const std::vector<int> tokens = of(model).EncodeAsIds(absl::string_view(text, bytes));
  result.take(result.to, tokens.data(), tokens.size());
}

void decode(const void* model, const int* tokens, std::size_t count, TextSink result) {
  give(result, of(model).DecodeIds({tokens, tokens + count}));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const SentencePieceFunctions cogwheel_sentencepiece_functions;
const SentencePieceFunctions cogwheel_sentencepiece_functions{train, load,  unload, vocabulary, special,
                                                              kind,  piece, encode, decode};

}  // namespace cogwheel::text
