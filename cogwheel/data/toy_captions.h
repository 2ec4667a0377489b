// The captions of coloured shapes (toy_shapes.h), for an encoder whose vectors say what is to be drawn.
#pragma once
#include <cstdint>

#include "cogwheel/data/sentence_corpus.h"

namespace cogwheel {

// So many captions of each part; labels are the classes of the shapes, by name.
SentenceCorpus toy_caption_corpus(std::int64_t training = 4000, std::int64_t held_out = 900);

}  // namespace cogwheel
