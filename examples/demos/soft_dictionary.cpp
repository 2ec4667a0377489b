// Attention as a soft dictionary: a query finds the key most like it and returns that key's value. The lower
// the temperature of the softmax, the sharper the look-up; the higher, the closer the result to the mean of all values.
#include "one_head.h"

int main() {
  const Matrix keys = identity(8);  // each word, zero to seven, has its own direction
  Matrix values{8, 1}, query{1, 8};
  for (int i = 0; i < 8; ++i) values(i, 0) = i;
  query(0, 5) = 0.7, query(0, 2) = 0.3;  // mostly "five", with some "two"
  std::printf("temperature   found   weight of five   weight of two\n");
  for (const double temperature : {10.0, 1.0, 0.3, 0.1, 0.03, 0.01}) {
    const double found = attend("softmax", query, keys, values, false, 1 / temperature)(0, 0);
    const Matrix a = weights("softmax", query, keys, false, 1 / temperature);
    std::printf("%11.2f   %5.3f   %14.3f   %13.3f\n", temperature, found, a(0, 5), a(0, 2));
  }
  std::printf("as in a dictionary: 5\n");
}
