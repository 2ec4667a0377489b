// The interface that a block expects of attention, or of another family that passes information between tokens.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/options/rotary_options.h"
#include "cogwheel/nn/ranks/divided_parameter.h"
#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::nn {

struct HeadCounts {
  std::int64_t query = 0, key = 0, value = 0;
};

// What each head of the output reads of a token and writes: for weights w, output · Σ w_j value · x_j.
struct ValueCircuit {
  at::Tensor value;      // [heads, width of a value, width], of grouped heads that of their group
  at::Tensor output;     // [heads, width, width of a value]
  at::Tensor gain = {};  // [width of a value], of the norm of heads between the two, where there is one
  double epsilon = 0;    // of this norm
};

// What a mixer's matrices make of the tokens, so that another mixer can take over their rows.
enum class ProjectionRole { query, key, value, output };

// A run of rows of a linear module, or, of `output`, of columns: `heads` of `head_dim` each, beside one another. Values
// of a head that is as wide as several queries count as so many heads.
struct Projection {
  ProjectionRole role;
  std::string module;  // of the mixer's linear modules: "query_key_value"
  std::int64_t first = 0, heads = 0, head_dim = 0;
  std::vector<std::int64_t> read = {};  // for each query head, which of these it reads

  std::int64_t size() const { return heads * head_dim; }
};

class TokenMixer : public torch::nn::Module {
 public:
  // x [B, N, width] → [B, N, width]. With a state in the context, x holds the tokens after those in the state, and the
  // output is their rows of the pass over all tokens. The context's dropout applies inside (to attention weights), not
  // to the output.
  virtual at::Tensor forward(const at::Tensor& x, const ForwardContext& context) = 0;

  // Whether its passes come to a place where hooks read or replace a value.
  virtual bool has_hook(HookPlace place) const = 0;
  // Whether no value can take the place of this one, where other layers would take it.
  virtual bool only_reads(HookPlace) const { return false; }
  // How many heads of queries, keys and values can read inputs of their own, ForwardContext::head_inputs; 0: none.
  virtual HeadCounts head_counts() const { return {}; }
  // None where values are not made and read by two matrices alone.
  virtual std::optional<ValueCircuit> value_circuit() const { return std::nullopt; }

  // Of queries, keys, values and the output, those that are linear in what the mixer reads or in its heads.
  virtual std::vector<Projection> projections() const { return {}; }

  // Of which each rank has a share in passes of a context with `heads`: those of its heads. None of a mixer that ranks
  // do not share, which each of them computes whole.
  virtual std::vector<DividedParameter> divided_parameters() const { return {}; }

  // How the components of queries and keys lie that are rotated; none where none are.
  virtual std::optional<RotaryLayout> rotary_layout() const { return std::nullopt; }
  // Rearranges queries and keys that were learned in another layout, so that they do here what they did there. The
  // names of the parameters that it rearranged beside their rows.
  virtual std::vector<std::string> take_layout(RotaryLayout) { return {}; }

  // Whether a token's output can be computed before the tokens after it are known.
  virtual bool can_decode() const = 0;
  // Whether what it carries grows with the tokens, so that a text ends where the model's context does.
  virtual bool keeps_tokens() const { return true; }
  // An empty state for up to `capacity` tokens of `batch` entries. Throws UsageError for a mixer that cannot decode.
  virtual std::unique_ptr<LayerState> make_state(std::int64_t batch, std::int64_t capacity) const = 0;

  // `name` is the full name of the module, dots included. The last argument is for the projection that writes into the
  // residual stream.
  virtual void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                          double residual_standard_deviation) = 0;
};

}  // namespace cogwheel::nn
