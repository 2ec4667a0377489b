# Warnings are errors in the project's own code, and only there: imported headers are SYSTEM.
add_library(cogwheel_warnings INTERFACE)
target_compile_options(cogwheel_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Werror)
