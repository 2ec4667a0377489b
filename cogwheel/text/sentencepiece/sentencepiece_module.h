// SentencePiece as a table of functions, from a module that is loaded when it is first used.
//
// Linked into the program, Debian's libsentencepiece and libtorch's libc10 would share the symbol FLAGS_minloglevel,
// an object of 32 bytes to one and an int to the other: whichever is loaded second writes over the other's memory. So
// a module of our own links it, and is opened with RTLD_LOCAL | RTLD_DEEPBIND: each keeps its own. No memory and no
// class of C++ crosses the border.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cogwheel::text {

// Receives text, which is gone when it returns.
struct TextSink {
  void (*take)(void* to, const char* text, std::size_t bytes);
  void* to;
};

struct TokenSink {
  void (*take)(void* to, const int* tokens, std::size_t count);
  void* to;
};

// An option of SentencePiece's trainer.
struct TrainingOption {
  const char *name, *value;
};

enum class PieceKind : int { text, unknown, control, byte, unused };

// -1: none
struct SpecialPieces {
  int padding, unknown, begin, end;
};

struct SentencePieceFunctions {
  // Trains on lines in UTF-8. Where it returns false, `result` received the reason, else the model.
  bool (*train)(const char* const* lines, const std::size_t* bytes, std::size_t count, const TrainingOption* options,
                std::size_t option_count, TextSink result);
  // Null where this is no model, of which `result` received the reason. Some damaged models end the process, but for
  // those that sentencepiece_model_check.h finds.
  void* (*load)(const char* model, std::size_t bytes, TextSink result);
  void (*unload)(void* model);
  int (*vocabulary)(const void* model);
  SpecialPieces (*special)(const void* model);
  PieceKind (*kind)(const void* model, int token);
  // The piece of a token, with ▁ for a space.
  void (*piece)(const void* model, int token, TextSink result);
  void (*encode)(const void* model, const char* text, std::size_t bytes, TokenSink result);
  // Of tokens that are in the vocabulary.
  void (*decode)(const void* model, const int* tokens, std::size_t count, TextSink result);
};

// What the module exports.
inline constexpr const char* sentencepiece_functions_name = "cogwheel_sentencepiece_functions";

// Throws Error where the module or libsentencepiece is missing.
const SentencePieceFunctions& sentencepiece();

}  // namespace cogwheel::text
