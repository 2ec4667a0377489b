// The captions of coloured shapes (toy_shapes.h), for an encoder whose vectors say what is to be drawn.
#pragma once
#include <cstdint>

#include "cogwheel/tasks/encoders/sentence_corpus.h"

namespace cogwheel::tasks::encoders {

// So many captions of each part; labels are the classes of the shapes, by name. There are 162 different ones, so that
// those held out are trained on too: a measure on them says nothing of captions that were never seen.
SentenceCorpus toy_caption_corpus(std::int64_t training = 4000, std::int64_t held_out = 900);

}  // namespace cogwheel::tasks::encoders
