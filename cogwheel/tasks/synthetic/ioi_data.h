// Indirect object identification: "After Mary and John went to the park , John gave a ring to" is to be continued by
// "Mary", the indirect object (IO), and not by "John", the subject (S), which comes twice. Wang, Variengien, Conmy,
// Shlegeris and Steinhardt, "Interpretability in the Wild: a Circuit for Indirect Object Identification in GPT-2 Small"
// (2023), section 2. The sentences are our own; every word is one token.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::tasks::synthetic {

// The words of all prompts. The last one, ".", fills rows of a batch.
std::shared_ptr<const text::WordTokenizer> ioi_tokenizer();
std::span<const std::string_view> ioi_names();
// Sentences of two names. A prompt is one of them, after up to `most_ioi_openings` sentences without a name.
std::size_t ioi_templates();
inline constexpr std::int64_t most_ioi_openings = 1;
// Tokens of the longest prompt.
std::int64_t longest_ioi_prompt(std::int64_t openings);

struct IoiPrompt {
  std::vector<Token> tokens;  // `begin`, then words; the answer follows the last, END
  Token io = 0, subject = 0;
  std::size_t io_at = 0, s1_at = 0, s2_at = 0;  // places of the names
  bool io_first = false;                        // ABBA: the first name is the indirect object; else BABA

  std::size_t end() const { return tokens.size() - 1; }
};

enum class IoiPairs {
  seen,   // nine tenths of the pairs of names, whichever of them is the subject
  unseen  // the others
};

// Names, template, order, place and object are drawn, and so many openings.
IoiPrompt draw_ioi_prompt(NumberedDraws& draws, IoiPairs pairs, std::int64_t openings = 0);

// The same prompt with three other names in the places of IO, S1 and S2, none of them its own: of what it says, all
// but who is who (the ABC distribution of the paper). `io` and `subject` stay those of the prompt.
IoiPrompt with_other_names(const IoiPrompt& prompt, NumberedDraws& draws);

}  // namespace cogwheel::tasks::synthetic
