// Learning in context: on text that repeats, an induction head copies what followed last time.
//
// A token looks for an earlier position whose previous token equals it, and predicts the token found there. Here the
// head is hand-made from one-hot vectors: the query is the current token, the key the previous token, the value the
// token itself. (induction.py learns one.) It predicts the second half of the text and nothing of the first.
#include "one_head.h"

int main() {
  constexpr int vocabulary = 16, half = 12, length = 2 * half;
  const int text[half] = {3, 14, 0, 5, 9, 2, 6, 13, 8, 1, 7, 11};
  Matrix query{length, vocabulary}, key{length, vocabulary}, value{length, vocabulary};
  for (int i = 0; i < length; ++i) {
    query(i, text[i % half]) = 1;
    if (i > 0) key(i, text[(i - 1) % half]) = 1;
    value(i, text[i % half]) = 1;
  }
  const Matrix found = attend("softmax", query, key, value, true, 20);
  int right[2] = {0, 0};
  for (int i = 0; i + 1 < length; ++i) {
    int best = 0;
    for (int token = 1; token < vocabulary; ++token)
      if (found(i, token) > found(i, best)) best = token;
    right[i >= half] += best == text[(i + 1) % half];
  }
  std::printf("foretold %d of %d in the first half, %d of %d in its repetition\n", right[0], half, right[1], half - 1);
}
