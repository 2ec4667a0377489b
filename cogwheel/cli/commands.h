// The subcommands. Each adds itself; its callback does the work.
#pragma once

namespace CLI {
class App;
}

namespace cogwheel {

void add_compare(CLI::App& app);
void add_train(CLI::App& app);
void add_resume(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_sample(CLI::App& app);
void add_view(CLI::App& app);
void add_embed(CLI::App& app);
void add_import(CLI::App& app);
void add_export(CLI::App& app);
void add_inspect(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_list(CLI::App& app);
void add_mechanism_command(CLI::App& app);
void add_bench(CLI::App& app);
void add_bench_steps(CLI::App& app);

}  // namespace cogwheel
