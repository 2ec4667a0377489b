# cogwheel_unit(<target> <name> <file>…): of these files of a target, one unit, where units are joined at all.
function(cogwheel_unit target name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# cogwheel_unit_for_each_folder(<target> <file>…): the files of each folder are a unit.
function(cogwheel_unit_for_each_folder target)
  foreach(source IN LISTS ARGN)
    get_filename_component(within ${source} DIRECTORY)
    string(REPLACE "/" "_" unit "folder/${within}")
    cogwheel_unit(${target} ${unit} ${source})
  endforeach()
endfunction()

# cogwheel_light_optimization(<target>): for code that waits for other libraries when it runs. It compiles in half the
# time.
function(cogwheel_light_optimization target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# cogwheel_sources(<variable>): every .cpp file of the folder and of those subfolders that are no libraries of their own nor
# in one.
function(cogwheel_sources variable)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(sources "")
  foreach(source IN LISTS found)
    set(of_another FALSE)
    get_filename_component(within ${source} DIRECTORY)
    while(within)
      if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${within}/CMakeLists.txt)
        set(of_another TRUE)
      endif()
      get_filename_component(within ${within} DIRECTORY)
    endwhile()
    if(NOT of_another)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# cogwheel_library(<folder> [SOURCES …] [BUT …] [DEPENDS …]): the static library of a folder of cogwheel/, cogwheel_<folder>
# with _ for /, and without what stands before mechanisms, kernels and authoring. What a folder links is what it may include.
#
# Its sources are SOURCES and, unless they are all there is to it (ONLY), cogwheel_sources, but for BUT. They are one unit.
function(cogwheel_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 library "ONLY" "" "SOURCES;BUT;DEPENDS")
  string(REGEX REPLACE "^attention/" "" name ${folder})
  string(REPLACE "/" "_" name ${name})
  set(sources ${library_SOURCES})
  if(NOT library_ONLY)
    cogwheel_sources(found)
    list(APPEND sources ${found})
    list(REMOVE_ITEM sources ${library_BUT} "")
  endif()
  add_library(cogwheel_${name} STATIC ${sources})
  cogwheel_unit(cogwheel_${name} folder ${sources})
  target_include_directories(cogwheel_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(cogwheel_${name} PUBLIC ${library_DEPENDS} PRIVATE $<BUILD_INTERFACE:cogwheel_warnings>)
endfunction()
