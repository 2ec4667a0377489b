#include "cogwheel/research/reproduce/source_name.h"

#include "cogwheel/core/error.h"

namespace cogwheel::reproduce {
namespace {

constexpr SourceName source_names[] = {
    {"s0", "S0", "the post on negative weights", "the post's", "Negative Weights Transformers, a post"},
    {"s1", "S1", "the paper of Cog", "the paper's",
     "Lv et al., More Expressive Attention with Negative Weights (2024)"},
    {"s2", "S2", "the lecture", "the lecture's", "Attention, notes of a lecture on language models"},
    {"s3", "S3", "the post on dense transformers", "the post's", "Vanilla/Dense Transformers, a post"},
    {"s4", "S4", "the notes on the symmetric transformer", "the notes'",
     "Symmetric Transformer, notes of a blog (2024)"},
};

}  // namespace

const SourceName& source_name(std::string_view experiment, std::string_view what) {
  const std::string_view folder = experiment.substr(0, experiment.find('/'));
  for (const SourceName& each : source_names)
    if (each.folder == folder) return each;
  throw UsageError(expected_got(what, "an experiment in a folder s0 to s4", experiment));
}

}  // namespace cogwheel::reproduce
