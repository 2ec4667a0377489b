// Text to words as BERT cuts it, before words are cut into pieces: Devlin et al., "BERT: Pre-training of Deep
// Bidirectional Transformers for Language Understanding" (2019), and the tokenizer that was published with it.
//
//   control characters and U+FFFD are left out; any white space is a space
//   a Chinese character is a word of its own
//   unless cased: canonical decomposition (NFD) without its nonspacing marks, then lower case, character by character
//   words end at spaces; a punctuation character, of Unicode or any of ASCII's symbols, is a word of its own
//
// Equal to `BertTokenizer` of transformers 5.23 with tokenizers 0.23 but for 880 code points, of which its tables,
// older or newer than the Unicode 15 of libutf8proc, say another category or lower case; and U+2B820 to U+2B91F are
// Chinese, as in the original. A capital sigma becomes σ at the end of a word too; Python's lower(), in older versions,
// gave ς.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::text {

// None of them is empty. Throws Error that names `what` and the byte where the text is not UTF-8.
std::vector<std::string> bert_words(std::string_view text, bool cased, std::string_view what = "text");

}  // namespace cogwheel::text
