// The matrices of a model in bfloat16 or int8, for passes that read them and change nothing.
//
//   int8: w ≈ s q,  s = max |w| / 127 of the row,  q = w / s rounded to the nearest integer
//
// A row is what makes one output, or the embedding of one token. Where every weight of a row is 0, so is its scale.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <unordered_map>

#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/nn/weights/row_products.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::nn {

class NarrowWeights {
 public:
  // Of every Linear within the model and of `embeddings`, parameters of it that rows are read from; what is no matrix
  // stays as it is. `type` is not float32. With `released`, the memory of the float32 weights is freed, and what reads
  // them instead of these finds NaN. Throws UsageError for a model of other numbers than float32.
  NarrowWeights(torch::nn::Module& model, std::span<const at::Tensor> embeddings, NumberType type,
                bool released = false);
  NarrowWeights(const NarrowWeights&) = delete;
  NarrowWeights& operator=(const NarrowWeights&) = delete;

  // Those that stand for this parameter; null: none.
  const RowWeight* find(const at::Tensor& weight) const;
  std::int64_t bytes() const;

 private:
  void add(const at::Tensor& parameter, NumberType type, bool released);

  std::unordered_map<const c10::TensorImpl*, RowWeight> narrow_;  // by parameter, which the model keeps
};

// [..., columns] float32 → the rows as int8, and the scale of each, float32 [...].
struct QuantizedRows {
  at::Tensor numbers, scale;
};
QuantizedRows quantized_rows(const at::Tensor& rows);

// x Wᵀ + b of rows [..., inputs] of any number. Few stay float32 (ops/layers/row_product.h); more, as those of a
// prompt, are rounded to bfloat16 on the CPU, and so are their products, as in training with that precision.
at::Tensor narrow_product(const at::Tensor& x, const RowWeight& weight);

// Rows of an embedding, tokens [...] int64 → [..., width]: of the weights in force, or of the parameter itself.
at::Tensor embedded_rows(const at::Tensor& embedding, const at::Tensor& tokens);

// While such an object exists, matrix_product and embedded_rows on its thread read the narrow weights of parameters
// that have them. Without gradients.
class NarrowProducts {
 public:
  explicit NarrowProducts(const NarrowWeights* weights);  // null: as if there were no such object
  ~NarrowProducts();
  static const NarrowWeights* in_force();  // on this thread; null: none
  NarrowProducts(const NarrowProducts&) = delete;
  NarrowProducts& operator=(const NarrowProducts&) = delete;

 private:
  const NarrowWeights* before_;
};

}  // namespace cogwheel::nn
