#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/verbs/device_option.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/serve/http_server.h"
#include "cogwheel/serve/viewed_run.h"
#include "cogwheel/serve/viewer.h"
#include "cogwheel/serve/viewer_page.h"
#include "cogwheel/serve/viewer_routes.h"

namespace cogwheel::cli {
namespace {

constexpr Range<std::int64_t> ports{0, 65535};

struct ViewArguments {
  std::vector<std::string> runs;
  std::optional<std::string> text;
  std::string second_text, out, device = "cpu";
  std::int64_t port = 7341;
  Definitions definitions;
};

std::string command_of(const ViewArguments& arguments) {
  std::string command = "cogwheel view";
  for (const std::string& run : arguments.runs) command += " " + shell_word(run);
  if (arguments.text) command += " --text " + shell_word(*arguments.text);
  if (!arguments.second_text.empty()) command += " --second-text " + shell_word(arguments.second_text);
  if (arguments.device != "cpu") command += " --device " + shell_word(arguments.device);
  return command;
}

void view(const ViewArguments& arguments) {
  register_definitions(arguments.definitions);
  place_models_on(arguments.device, "view");
  std::vector<serve::ViewedRun> runs;
  for (const std::string& run : arguments.runs) runs.push_back(serve::ViewedRun::load(run));
  if (runs.size() == 2 && runs[0].name() == runs[1].name())
    for (std::size_t run = 0; run < 2; ++run) runs[run].rename(arguments.runs[run]);
  if (!arguments.out.empty()) {
    runs::expect_no_run_file(arguments.out, "--export");
    expect_writable(arguments.out);
  }
  serve::ViewerPage page{.text = arguments.text.value_or(runs.front().example()),
                         .second_text = arguments.second_text,
                         .command = command_of(arguments),
                         .version = COGWHEEL_VERSION};
  if (arguments.text) runs.front().read(page.text, "--text");
  if (!page.second_text.empty()) runs.front().read(page.second_text, "--second-text");
  serve::Viewer viewer(std::move(runs));
  if (!arguments.out.empty()) {
    if (page.text.empty()) throw UsageError(expected_got("--export", "--text, which the page shows", "none"));
    write_file(arguments.out, serve::exported_page(viewer, page));
    fmt::print("{}\n", arguments.out);
    return;
  }
  const auto& stop = stop_flag();
  serve::HttpServer server(static_cast<int>(arguments.port), "--port");
  serve::add_viewer(server, viewer, page);
  fmt::print("{}  (Ctrl-C ends)\n", server.address());
  std::fflush(stdout);
  server.serve([&] { return stop.load(); });
}

}  // namespace

void add_view_command(CLI::App& app) {
  const auto arguments = std::make_shared<ViewArguments>();
  CLI::App* command =
      app.add_subcommand("view", "Look into the heads of one or two language models, in the browser of this machine");
  command->add_option("runs", arguments->runs, "the folder of a run, or a checkpoint in it; two to compare them")
      ->required()
      ->expected(1, 2)
      ->type_name("RUN");
  command->add_option("--text", arguments->text, "what the models read first")->type_name("TEXT");
  command
      ->add_option("--second-text", arguments->second_text, "to compare with, or to patch heads from; as many tokens")
      ->type_name("TEXT");
  command->add_option("--export", arguments->out, "write a page that opens from a file instead, without a server")
      ->type_name("FILE");
  add_number(*command, "--port", arguments->port, ports, "of 127.0.0.1; 0: any free one")
      ->default_str(number_text(arguments->port))
      ->type_name("N");
  add_device_option(*command, arguments->device);
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { view(*arguments); });
}

}  // namespace cogwheel::cli
