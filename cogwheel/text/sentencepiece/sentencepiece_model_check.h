// What SentencePiece takes on trust in a model, and reads beyond its memory or ends the process for where it is not so;
// and what a model says of itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/sentencepiece/sentencepiece_module.h"

namespace cogwheel::text {

// What is wrong with the bytes of a model; empty where nothing is. Checked are the form of the message
// (sentencepiece_model.proto), its pieces, and that the table of the normalizer stays within itself.
std::string sentencepiece_model_problem(std::string_view model);

// A piece of a model; its text lies in the model.
struct ModelPiece {
  std::string_view text = {};
  float score = 0;
  PieceKind kind = PieceKind::text;
  bool user_defined = false;
};

// What a model says of itself that SentencePiece's functions do not; what it leaves out is as sentencepiece_model.proto
// has it.
struct ModelSettings {
  std::vector<ModelPiece> pieces = {};
  bool byte_pairs = false;   // or unigram, words, characters
  bool bytes = false;        // for characters without a piece
  bool normalizes = false;   // by a table of characters
  bool space_before = true;  // every text begins with a space
  bool drops_spaces = true;  // at the ends of a text, and of several all but one
  bool space_after = false;  // spaces belong to the word before them
  bool shows_spaces = true;  // as ▁
};

// Of a model without problem.
ModelSettings sentencepiece_model_settings(std::string_view model);

}  // namespace cogwheel::text
