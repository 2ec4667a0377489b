#include "cogwheel/tasks/encoders/toy_captions.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/tasks/images/data/image_source.h"

namespace cogwheel::tasks::encoders {
namespace {

// Training captions are those that a training run of the shapes with seed 0 meets.
std::vector<images::ImageExample> shapes(const images::ImageSource& source, images::ImagePart part,
                                         std::int64_t count) {
  std::vector<images::ImageExample> all;
  for (std::int64_t index = 0; index < count; ++index) all.push_back(source.image(part, index));
  return all;
}

}  // namespace

SentenceCorpus toy_caption_corpus(std::int64_t training, std::int64_t held_out) {
  const auto source = images::toy_shape_images({.size = 16, .held_out = held_out});
  const std::vector<images::ImageExample> parts[] = {shapes(*source, images::ImagePart::training, training),
                                                     shapes(*source, images::ImagePart::held_out, held_out)};
  SentenceCorpus corpus;
  corpus.name = "captions of coloured shapes";
  std::vector<std::string_view> lines;
  for (const images::ImageExample& each : parts[0]) lines.emplace_back(each.caption);
  constexpr std::int64_t enough = 256;  // for all words as whole pieces
  corpus.tokenizer = text::WordPieceTokenizer::learn(lines, enough, false, corpus.name);
  corpus.classes = source->class_names();
  Sha256 all;
  SentenceRows* const rows[] = {&corpus.training, &corpus.held_out};
  for (std::size_t part = 0; part < 2; ++part)
    for (const images::ImageExample& each : parts[part]) {
      rows[part]->tokens.add(corpus.tokenizer->encode(each.caption), {}, rows[part]->size());
      rows[part]->labels.push_back(each.label);
      rows[part]->texts.push_back(each.caption);
      corpus.longest = std::max(corpus.longest, rows[part]->length(rows[part]->size() - 1));
      all.add(each.caption + "\n");
    }
  corpus.sha256 = all.digits();
  return corpus;
}

}  // namespace cogwheel::tasks::encoders
