// An architecture of a program that nobody has: the averager of tests/python/additions.
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/tasks/averages/averager.h"

namespace cogwheel {

Architecture averager_of_tests() {
  return {"MeanOfNumbers",
          "the mean of numbers (tests)",
          [](const ModelOptions& model) { return model.get_if<AveragerOptions>() != nullptr; },
          [](const ModelOptions& model) {
            const auto& options = model.as<AveragerOptions>();
            TensorTable table("MeanOfNumbers");
            table.linear("in", {"first"}, options.context, options.width);
            table.linear("out", {"second"}, options.width, 1);
            return table;
          },
          [](ForeignConfig& config, const std::filesystem::path&) {
            ForeignModel read;
            AveragerOptions options;
            options.width = config.whole("width", {1, 1 << 20});
            read.config.task.name = "averages";
            read.config.model = options;
            return read;
          },
          [](const RunConfig& run, const std::filesystem::path&) -> std::vector<RunFile> {
            const nlohmann::ordered_json config = {{"architectures", {"MeanOfNumbers"}},
                                                   {"width", run.model.as<AveragerOptions>().width}};
            return {{"config.json", config.dump() + "\n"}};
          }};
}

}  // namespace cogwheel
