#include "cogwheel/tasks/images/caption_encoder.h"

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/encoders/sentence_data.h"

namespace cogwheel::tasks::images {

struct CaptionEncoder::Trained : encoders::TrainedEncoder {};

CaptionEncoder::CaptionEncoder(const std::filesystem::path& run, std::int64_t tokens) : tokens_(tokens) {
  const runs::RunFolder folder = runs::RunFolder::open(run);
  trained_ = std::make_unique<Trained>(Trained{encoders::load_encoder(folder)});
  sha256_ = sha256_of_file(folder.checkpoint_path());
  expect_within("task.caption_tokens", tokens, Range<std::int64_t>{2, trained_->model->options().context});
}
CaptionEncoder::~CaptionEncoder() = default;

void CaptionEncoder::expect(const std::string& recorded, const std::filesystem::path& run) const {
  if (!recorded.empty() && recorded != sha256_)
    throw Error(expected_got(run.string() + ": SHA-256 of the checkpoint",
                             recorded.substr(0, 12) + "…, the encoder that the run learned with",
                             sha256_.substr(0, 12) + "…"));
}

std::int64_t CaptionEncoder::width() const { return trained_->model->options().width; }

at::Tensor CaptionEncoder::contexts(const std::vector<std::string>& captions) const {
  std::vector<encoders::SentenceRow> rows;
  for (const std::string& caption : captions) rows.push_back(encoders::sentences_in(caption, trained_->in_row));
  return encoders::text_states(*trained_, rows, tokens_);
}

}  // namespace cogwheel::tasks::images
