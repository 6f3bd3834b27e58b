// An operator plugin of ADIOS2 that compresses by the C library of Syncline. License: MIT OR Apache-2.0.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <adios2/plugin/PluginOperatorInterface.h>

#include "syncline.h"

#if ADIOS2_PLUGIN_OPERATOR_INTERFACE != 2
#error "this operator is for version 2 of the interface for operators: use ADIOS2 2.12 or newer"
#endif

namespace
{

using adios2::DataType;
using adios2::Dims;
using adios2::Params;

/** How the elements of a type of ADIOS2 are compressed. */
struct Element
{
    uint32_t type;
    /** Numbers of an element: 2 for complex ones, which become a last axis. */
    size_t parts;
};

const std::map<DataType, Element> ELEMENTS{
    {DataType::Float, {SYNCLINE_F32, 1}},        {DataType::Double, {SYNCLINE_F64, 1}},
    {DataType::FloatComplex, {SYNCLINE_F32, 2}}, {DataType::DoubleComplex, {SYNCLINE_F64, 2}},
    {DataType::Int8, {SYNCLINE_I8, 1}},          {DataType::Int16, {SYNCLINE_I16, 1}},
    {DataType::Int32, {SYNCLINE_I32, 1}},        {DataType::Int64, {SYNCLINE_I64, 1}},
    {DataType::UInt8, {SYNCLINE_U8, 1}},         {DataType::UInt16, {SYNCLINE_U16, 1}},
    {DataType::UInt32, {SYNCLINE_U32, 1}},       {DataType::UInt64, {SYNCLINE_U64, 1}},
    {DataType::Char, {SYNCLINE_I8, 1}},
};

const std::map<std::string, uint32_t> BOUNDS{
    {"abs", SYNCLINE_ABS}, {"rel", SYNCLINE_REL}, {"psnr", SYNCLINE_PSNR}, {"pw_rel", SYNCLINE_PW_REL}};

const std::map<std::string, uint32_t> EFFORTS{
    {"fast", SYNCLINE_EFFORT_FAST}, {"balanced", SYNCLINE_EFFORT_BALANCED}, {"best", SYNCLINE_EFFORT_BEST}};

/** What ADIOS2 passes to every plugin. */
const std::vector<std::string> FOR_ADIOS{"pluginname", "pluginlibrary", "verbose", ""};

/** Keeps the message of the last error. */
class Context
{
public:
    syncline_context *const context = syncline_create_context();

    Context() = default;
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    ~Context() { syncline_free_context(context); }

    /** Returns a result that is a size, and throws the message of one that is an error. */
    size_t Check(const size_t result) const
    {
        if (syncline_is_error(result))
        {
            throw std::runtime_error("Syncline: " + std::string(syncline_error_name(result)) + ": " +
                                     syncline_error_message(context));
        }
        return result;
    }
};

/** Returns the number that a parameter states. */
double NumberOf(const std::string &key, const std::string &text)
{
    size_t end = 0;
    double number = 0;
    try
    {
        number = std::stod(text, &end);
    }
    catch (const std::logic_error &)
    {
        end = 0;
    }
    if (end == 0 || end != text.size())
    {
        throw std::invalid_argument("Syncline: the parameter " + key + " must be a number, not " + text);
    }
    return number;
}

/** Returns the options that the parameters state. Their keys are in lower case. */
syncline_compress_options OptionsOf(const Params &parameters)
{
    syncline_compress_options options;
    syncline_init_compress_options(&options, sizeof options);
    // Simulations have a rank for each core.
    options.threads = 1;
    int bounds = 0;
    for (const auto &parameter : parameters)
    {
        const std::string &key = parameter.first, &value = parameter.second;
        const auto bound = BOUNDS.find(key);
        if (bound != BOUNDS.end())
        {
            options.bound_mode = bound->second;
            options.bound_value = NumberOf(key, value);
            bounds++;
        }
        else if (key == "effort")
        {
            const auto effort = EFFORTS.find(value);
            if (effort == EFFORTS.end())
            {
                throw std::invalid_argument("Syncline: effort must be fast, balanced, or best, not " + value);
            }
            options.effort = effort->second;
        }
        else if (key == "fill")
        {
            options.fill_mode = SYNCLINE_FILL_VALUE;
            options.fill_value = NumberOf(key, value);
        }
        else if (key == "threads")
        {
            const double threads = NumberOf(key, value);
            if (!(threads >= 0 && threads <= 4096 && threads == std::floor(threads)))
            {
                throw std::invalid_argument("Syncline: threads must be a whole number up to 4096, not " + value);
            }
            options.threads = static_cast<uint32_t>(threads);
        }
        else if (std::find(FOR_ADIOS.begin(), FOR_ADIOS.end(), key) == FOR_ADIOS.end())
        {
            throw std::invalid_argument("Syncline: unknown parameter " + key +
                                        ": use abs, rel, psnr, or pw_rel; effort; fill; threads");
        }
    }
    if (bounds > 1)
    {
        throw std::invalid_argument("Syncline: state one of abs, rel, psnr, and pw_rel; none is lossless");
    }
    // An array without elements, so that values that are not valid are errors here and not in the middle of a step.
    const Context context;
    const uint64_t empty = 0;
    std::vector<char> stream(context.Check(syncline_compress_bound(SYNCLINE_F32, &empty, 1)));
    context.Check(syncline_compress(context.context, stream.data(), stream.size(), nullptr, 0, SYNCLINE_F32,
                                    &empty, 1, &options));
    return options;
}

/** Returns the shape of a block as Syncline takes it. */
std::vector<uint64_t> ShapeOf(const Element &element, const size_t rank, const size_t *extents)
{
    std::vector<uint64_t> shape(extents, extents + rank);
    if (element.parts > 1)
    {
        shape.push_back(element.parts);
    }
    return shape;
}

class SynclineOperator : public adios2::plugin::PluginOperatorInterface
{
public:
    explicit SynclineOperator(const Params &parameters)
    : PluginOperatorInterface(parameters), m_Options(OptionsOf(parameters))
    {
    }

    /** A block becomes one stream, which describes itself. */
    size_t Operate(const char *dataIn, const Dims &, const Dims &blockCount, const DataType type,
                   char *bufferOut) override
    {
        const Context context;
        const Element element = ELEMENTS.at(type);
        const auto shape = ShapeOf(element, blockCount.size(), blockCount.data());
        size_t size = syncline_element_size(element.type);
        for (const uint64_t extent : shape)
        {
            size *= extent;
        }
        // ADIOS2 has allocated what `GetEstimatedSize` returned, which is at least this.
        const size_t capacity = context.Check(syncline_compress_bound(element.type, shape.data(), shape.size()));
        return context.Check(syncline_compress(context.context, bufferOut, capacity, dataIn, size, element.type,
                                               shape.data(), shape.size(), &m_Options));
    }

    /** ADIOS2 has allocated the array by its own metadata, whose size it does not pass. */
    size_t InverseOperate(const char *bufferIn, const size_t sizeIn, char *dataOut) override
    {
        const Context context;
        syncline_header header = {};
        header.struct_size = sizeof header;
        const size_t size = context.Check(syncline_read_header(context.context, &header, bufferIn, sizeIn));
        syncline_decompress_options options;
        context.Check(syncline_init_decompress_options(&options, sizeof options));
        options.threads = m_Options.threads;
        return context.Check(syncline_decompress(context.context, dataOut, size, bufferIn, sizeIn, &options));
    }

    bool IsDataTypeValid(const DataType type) const override { return ELEMENTS.count(type) > 0; }

    /** Returns the largest size of a stream of any type that has elements of this size. */
    size_t GetEstimatedSize(const size_t, const size_t elemSize, const size_t ndims,
                            const size_t *dims) const override
    {
        const Context context;
        size_t largest = 0;
        for (const auto &each : ELEMENTS)
        {
            const Element element = each.second;
            if (syncline_element_size(element.type) * element.parts == elemSize)
            {
                const auto shape = ShapeOf(element, ndims, dims);
                const size_t bound = syncline_compress_bound(element.type, shape.data(), shape.size());
                largest = std::max(largest, context.Check(bound));
            }
        }
        return largest;
    }

private:
    const syncline_compress_options m_Options;
};

} // end namespace

extern "C" {

adios2::plugin::PluginOperatorInterface *OperatorCreate(const Params &parameters)
{
    return new SynclineOperator(parameters);
}

void OperatorDestroy(adios2::plugin::PluginOperatorInterface *instance) { delete instance; }
}
