// What SentencePiece takes on trust in a model, and reads beyond its memory or ends the process for where it is not so.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::text {

// What is wrong with the bytes of a model; empty where nothing is. Checked are the form of the message
// (sentencepiece_model.proto), its pieces, and that the table of the normalizer stays within itself.
std::string sentencepiece_model_problem(std::string_view model);

}  // namespace cogwheel::text
