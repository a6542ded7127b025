/* Units, their tensors, and the letters of formulas, for people and for parameter counts. */
#include <stdio.h>
#include <string.h>

#include "family/family.h"
#include "zeroledger/bytes.h"
#include "zeroledger/predict.h"

const char *zl_unit_name(zl_unit unit)
{
    switch (unit) {
    case ZL_UNIT_EMBED:
        return "embedding";
    case ZL_UNIT_BLOCK:
        return "block";
    case ZL_UNIT_HEAD:
        return "head";
    case ZL_UNIT_COUNT:
        break;
    }
    return "";
}

static void list_tensors(const zl_model *model, zl_unit unit, zl_tensor_list *list)
{
    list->count = 0;
    zl_family_get(model->family)->tensors(model, unit, list);
}

size_t zl_unit_tensors(const zl_model *model, zl_unit unit, zl_tensor *tensors, size_t cap)
{
    zl_tensor_list list;
    zl_dims dims;
    list_tensors(model, unit, &list);
    zl_dims_model(model, &dims);
    for (size_t i = 0; i < list.count && i < cap; i++) {
        tensors[i].name = list.row[i].name;
        tensors[i].elements = zl_form_value(list.row[i].form, &dims);
        zl_form_text(list.row[i].form, "1", 1, &dims, false, tensors[i].symbols,
                     sizeof tensors[i].symbols);
    }
    return list.count;
}

uint64_t zl_params(const zl_model *model)
{
    zl_dims dims;
    zl_dims_model(model, &dims);
    uint64_t total = 0;
    for (int u = 0; u < ZL_UNIT_COUNT; u++) {
        zl_tensor_list list;
        list_tensors(model, (zl_unit)u, &list);
        uint64_t unit = 0;
        for (size_t i = 0; i < list.count; i++) {
            unit = zl_add(unit, zl_form_value(list.row[i].form, &dims));
        }
        total = zl_add(total, u == ZL_UNIT_BLOCK ? zl_mul(model->layers, unit) : unit);
    }
    return total;
}

uint64_t zl_unit_elements(const zl_run *run, zl_unit unit)
{
    zl_dims dims;
    zl_dims_run(run, &dims);
    return dims.n[dim_unit_embed + (int)unit];
}

/* Plain numbers need no legend. */
static bool is_plain(zl_dim dim)
{
    return dim == dim_none || dim == dim_one || dim == dim_two || dim == dim_three;
}

bool zl_letter_at(size_t index, zl_letter *out)
{
    for (int d = 0; d < ZL_DIM_COUNT; d++) {
        if (is_plain((zl_dim)d)) {
            continue;
        }
        if (index == 0) {
            *out = (zl_letter){zl_dim_symbol((zl_dim)d), zl_dim_text((zl_dim)d)};
            return true;
        }
        index--;
    }
    return false;
}
