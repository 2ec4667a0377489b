// How the numbers of tensors of theirs lie in one of ours, and both ways across.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/interchange/row_order.h"

namespace at {
class Tensor;
}

namespace cogwheel::interchange {

struct ForeignTensor;

using Shape = std::vector<std::int64_t>;

struct ForeignPart {
  std::string name;
  std::int64_t rows;  // of ours that it has
  Shape shape;        // of theirs
  Order order = {};   // of the rows
};

struct TensorPair {
  std::string ours;
  Shape our_shape;
  std::vector<ForeignPart> parts;  // their rows, one part after another, are ours
  bool transposed = false;         // theirs are [columns, rows]
  Order columns = {};
  std::string gain = {};  // a vector of ours, of which each of its length columns has an element: theirs are multiplied

  std::int64_t rows() const { return our_shape.front(); }
  std::int64_t row_numbers() const;
};

// Reads `theirs` into the rows of `ours`, a contiguous float32 tensor of the CPU, that begin at `first_row`: in pieces,
// with several threads. Returns whether all numbers are finite. The types and shapes must have been checked.
bool read_part(const ForeignTensor& theirs, const TensorPair& pair, const ForeignPart& part, std::int64_t first_row,
               const at::Tensor& ours);

// The other way, as a contiguous tensor. `gain` is undefined where the pair has none.
at::Tensor written_part(const at::Tensor& ours, const at::Tensor& gain, const TensorPair& pair, const ForeignPart& part,
                        std::int64_t first_row);

// Whether both hold the same numbers, of whatever types; they must be floats of one shape.
bool same_numbers(const ForeignTensor& a, const ForeignTensor& b);

}  // namespace cogwheel::interchange
