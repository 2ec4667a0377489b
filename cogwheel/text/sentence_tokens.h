// The tokens that vocabularies of sentences begin with.
#pragma once
#include "cogwheel/core/token.h"

namespace cogwheel::text {

struct SentenceTokens {
  static constexpr Token padding = 0;  // where a batch has no token
  static constexpr Token unknown = 1;
  static constexpr Token begin = 2;  // before the first token of a target
  static constexpr Token end = 3;    // after the last token of a sentence
  static constexpr Token count = 4;
};

}  // namespace cogwheel::text
