// An architecture of a program that nobody has: the averager of tests/python/additions.
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/tasks/averages/averager.h"

namespace cogwheel::interchange {

Architecture averager_of_tests() {
  return {"MeanOfNumbers",
          "the mean of numbers (tests)",
          [](const runs::ModelOptions& model) { return model.get_if<tasks::averages::AveragerOptions>() != nullptr; },
          [](const runs::ModelOptions&) -> std::string { return ""; },
          [](const runs::ModelOptions& model) {
            const auto& options = model.as<tasks::averages::AveragerOptions>();
            TensorTable table("MeanOfNumbers");
            table.linear("in", {"first"}, options.context, options.width);
            table.linear("out", {"second"}, options.width, 1);
            return table;
          },
          [](ForeignConfig& config, const std::filesystem::path&) {
            ForeignModel read;
            tasks::averages::AveragerOptions options;
            options.width = config.whole("width", {1, 1 << 20});
            read.config.task.name = "averages";
            read.config.model = options;
            return read;
          },
          [](ModelToWrite& given) -> WrittenModel {
            const auto& options = given.config.model.as<tasks::averages::AveragerOptions>();
            const nlohmann::ordered_json config = {{"architectures", {"MeanOfNumbers"}}, {"width", options.width}};
            return {.files = {{"config.json", config.dump() + "\n"}}};
          }};
}

}  // namespace cogwheel::interchange
