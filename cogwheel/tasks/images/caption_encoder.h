// Captions as vectors that condition the noise in images: the states of a trained encoder of text.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/tasks/images/data/image_batches.h"

namespace cogwheel::tasks::images {

class CaptionEncoder {
 public:
  // A run of sentences or masked_words, and how many tokens a caption has, [CLS] and [SEP] included: longer ones are
  // cut. Throws Error for another folder, UsageError for more tokens than the encoder has.
  CaptionEncoder(const std::filesystem::path& run, std::int64_t tokens);
  ~CaptionEncoder();

  std::int64_t tokens() const { return tokens_; }
  const std::string& sha256() const { return sha256_; }  // of its checkpoint
  // Throws Error where a run learned with another one than `run` now holds.
  void expect(const std::string& recorded, const std::filesystem::path& run) const;
  std::int64_t width() const;
  // [captions, tokens, width]
  at::Tensor contexts(const std::vector<std::string>& captions) const;
  // The same for the captions of a batch, as its contexts.
  void fill(ImageBatch& batch) const { batch.contexts = contexts(batch.captions); }

 private:
  struct Trained;
  std::unique_ptr<Trained> trained_;
  std::string sha256_;
  std::int64_t tokens_;
};

}  // namespace cogwheel::tasks::images
